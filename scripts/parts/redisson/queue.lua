-- include queue/now
-- include redisson/notify
-- redisson/queue
-- The first waiter whose deadline is not over, or that is the sender of this, if there is one.
-- Those before it lose their position, as in Java, and get a message: one that is alive queues
-- again. Deadlines are milliseconds: of the server's clock here, and of each client's clock if Java
-- wrote them.
--
-- uses     channel, deadlines, hold, notify, now, queue, verb
-- defines  first_waiter, now_ms
local now_ms = math.floor(tonumber(now) / US_PER_MS)
local function first_waiter()
  for _ = 1, DEADLINES_PAGE do
    local owner = redis.call('LINDEX', queue, '0')
    local till = owner and redis.call('ZSCORE', deadlines, owner)
    if not owner or till and (owner == hold or tonumber(till) > now_ms) then
      return owner
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    notify(verb, channel .. owner, '0')
  end
  return redis.call('LINDEX', queue, '0') -- the next call finds out whether its deadline is over
end
