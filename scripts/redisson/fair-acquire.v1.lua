-- redisson/fair-acquire v1
-- Acquires a lock that is free, if the hold is the first waiter, as RedissonFairLock has it.
-- Otherwise the hold gets a position at the end of the queue, unless it only tries. Sent again for
-- the same hold it keeps position and lock, and lengthens either.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- KEYS[2]  queue  list: the holds that wait, the next one first
-- KEYS[3]  deadlines  sorted set: hold -> the millisecond from which on its position is lost, once
--          it is the first
-- ARGV[1]  hold  56 characters, fresh for every attempt
-- ARGV[2]  ttl_ms  positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[5]  channel  on which waiters listen, without the hold that it ends with
-- ARGV[6]  waits  1 to queue, 0 to try
-- ARGV[7]  wait_ms  how long a position is good for, the fairLockWaitTimeout of the Java clients
-- returns  {1, now}   acquired, at the server's time now
--          {0, left_ms, now}  another hold has it for left_ms at most; below 0 it is free, for
--            another waiter
--          {-1, now}  later than not_after
--          {-2, kind}  the name is in use by another kind of lock, or is no key of Redisson's ('?')
--          an error   the server's refusal
-- effects  writes the KEYS; publishes 0 to waiters that lost their positions, and to the first
--          waiter if the lock is free and that is another
-- cost     O(1) without waiters: TIME, HLEN, HGET, LINDEX, ZRANGE, HSET, PEXPIRE. O(n log n) in the
--          waiters if it is acquired, and O(n) for a waiter, whose position is searched
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local hold, ttl_ms, not_after, verb, channel, waits, wait_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
assert(string.find(ttl_ms .. ' ' .. wait_ms, '^[1-9]%d* [1-9]%d*$') and ttl_ms + wait_ms < MAX_NUMBER, 'bad argument')

-- include queue/now

if now > not_after then
  return {-1, now}
end
local fields = redis.pcall('HLEN', lock)
if type(fields) == 'table' then
  if string.sub(fields['err'], 1, 9) == 'WRONGTYPE' then
    return {-2, '?'}
  end
  return fields
end
if fields > 0 and redis.call('HGET', lock, hold) then
  redis.call('PEXPIRE', lock, ttl_ms)
  return {1, now}
end
if fields > 0 and redis.call('HGET', lock, 'mode') then
  return {-2, 'w'}
end

-- include redisson/queue
-- include redisson/write-hold

local head = first_waiter()
if fields == 0 and (not head or head == hold) then
  -- A waiter gets the lock also if memory is full: these take none, and nothing is refused behind
  -- them.
  if head then
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, hold)
  end
  local others = redis.call('ZRANGE', deadlines, '0', '-1')
  local refusal = write_hold(lock, hold, ttl_ms)
  if refusal then
    return refusal
  end
  for _, owner in ipairs(others) do
    if owner == hold then
      redis.call('ZREM', deadlines, owner) -- the queue alone was deleted
    else
      redis.call('ZINCRBY', deadlines, -wait_ms, owner) -- one waiter less is before them
    end
  end
  return {1, now}
end

local left_ms = redis.call('PTTL', lock)
if fields == 0 then
  -- Its message was lost, or the key ended and no message was sent.
  notify(verb, channel .. head, '0')
end
if waits == '0' then
  return {0, left_ms, now}
end
local till, rank = redis.call('ZSCORE', deadlines, hold), redis.call('LPOS', queue, hold)
if rank then
  -- A position is good for as many waits as there are holders before and with it. Half of one less
  -- is early enough to say that the waiter is alive; Java's holds never say so.
  local full = now_ms + (rank + 1) * wait_ms
  if not till or tonumber(till) < full - wait_ms / 2 then
    redis.call('ZADD', deadlines, string.format('%.0f', full), hold)
  end
  return {0, left_ms, now}
end
local last = redis.call('LINDEX', queue, '-1')
local base = last and redis.call('ZSCORE', deadlines, last) or now_ms + left_ms
local deadline = string.format('%.0f', math.max(tonumber(base), now_ms) + wait_ms)
redis.call('ZADD', deadlines, deadline, hold)
local pushed = redis.pcall('RPUSH', queue, hold)
if type(pushed) == 'table' then
  redis.pcall('ZREM', deadlines, hold)
  return pushed
end
return {0, left_ms, now}
