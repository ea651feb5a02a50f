-- include line/now
-- include redisson/tell
-- redisson/queue
-- The first in line whose deadline is not over, or who is the sender of this, if there is one.
-- Those before it lose their place, as whoever comes takes it in Java; they are told, so that who
-- lives stands in line again. Deadlines are milliseconds: the server's here, and those of each
-- client's clock where Java wrote them.
--
-- uses     channel, deadlines, hold, queue, verb
-- defines  ms, first
local ms = math.floor(tonumber(now) / 1000)
local function first()
  for _ = 1, 1000 do
    local owner = redis.call('LINDEX', queue, '0')
    local till = owner and redis.call('ZSCORE', deadlines, owner)
    if not owner or till and (owner == hold or tonumber(till) > ms) then
      return owner
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    tell(verb, channel .. owner, '0')
  end
  return redis.call('LINDEX', queue, '0') -- not before the next call finds out whether it is
end
