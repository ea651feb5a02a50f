-- Writes down who has the lock, and until when. The key outlives the hold by 15 seconds, more than
-- there is between two looks of any waiter: another kind of lock is kept out while somebody queues.
local function hold_until(hold, stamp, till, who)
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / 1000 + 15000)
  redis.call('SET', holder, 'sb1f' .. stamp .. hold .. till .. '------' .. who, 'PX', ms)
end

-- The stamp of the next token: later than floor, the last one used, also where the clock was set back.
local function after(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Gives the lock, which is free, to the first in line that lives. The hold gets the rest of its
-- session's life, and the message says which heartbeat paid for it; at least a second, so that no place
-- is lost for a few milliseconds. Where nobody lives it is free.
local function hand_off(floor)
  local hold, life = next_living()
  if not hold then
    redis.call('DEL', holder)
    if more == 0 and redis.call('EXISTS', line) == 0 then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', 3600000)
    else
      redis.pcall('SET', holder, 'sb1f' .. floor .. string.rep('-', 41) .. string.rep('0', 16) .. '------', 'PX', 15000)
    end
    return ''
  end
  local stamp, owner = after(floor), string.sub(hold, 1, 22)
  local till = string.format('%016.0f', tonumber(now) + 1000000)
  if string.sub(life, 1, 16) > till then
    till = string.sub(life, 1, 16)
  end
  redis.call('ZREM', line, hold)
  hold_until(hold, stamp, till, string.sub(life, 37))
  if owner ~= session then -- who sent this is told by the reply
    redis.pcall(verb, channel .. owner, string.sub(hold, 23) .. stamp .. string.sub(life, 17, 36))
  end
  return hold, stamp, string.sub(life, 17, 36)
end
