-- Gives the lock, which is free, to the first in line that lives. Where nobody lives it is free.
local function hand_off(floor)
  local hold, life = search(line, 'from')()
  if not hold then
    redis.call('DEL', holder)
    if more == 0 and redis.call('EXISTS', line) == 0 then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
    else
      redis.pcall('SET', holder, 'sb1f' .. floor .. string.rep('-', 41) .. string.rep('0', 16) .. '------', 'PX', 15000)
    end
    return ''
  end
  redis.call('ZREM', line, hold)
  return hold, grant(hold, life, floor), string.sub(life, 17, 36)
end
