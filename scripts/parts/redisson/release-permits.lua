-- include redisson/notify
-- include redisson/permits
-- include redisson/hold-permits
-- redisson/release-permits
-- Takes away those of the permits that are held, and counts them as free; returns how many. If the
-- count is refused, they are held as before, which needs only the rights of an acquire.
--
-- uses     channel, free, hold_permits, notify, permits, timeouts, verb
-- defines  release_permits
local function release_permits(ids)
  local ends = redis.call('ZMSCORE', timeouts, unpack(ids))
  local released = redis.call('ZREM', timeouts, unpack(ids))
  if released == 0 or not free then
    return released -- if the number was lost, the next acquire writes it anew
  end
  local now_free = redis.pcall('INCRBY', permits, released)
  if type(now_free) == 'table' then
    for n, id in ipairs(ids) do
      if ends[n] then
        hold_permits({id}, ends[n])
      end
    end
    redis.call('INCRBY', permits, released) -- refused: so is this, and all
  elseif now_free > 0 then
    notify(verb, channel, string.format('%.0f', now_free))
  end
  return released
end
