-- redisson/fair-release v1
-- Releases a lock that a hold still has, as RedissonFairLock has it, and notifies the first
-- waiter; or removes the hold from the queue. It also undoes an acquire of unknown outcome.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- KEYS[2]  queue  list: see redisson/fair-acquire v1
-- KEYS[3]  deadlines  sorted set: see redisson/fair-acquire v1
-- ARGV[1]  hold  56 characters
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen, without the hold that it ends with
-- ARGV[4]  wait_ms  see redisson/fair-acquire v1
-- returns  {0, now}   this hold does not have the lock; now is the server's time, a stamp
--          {1, now}   it had, and released it
--          an error   the server's refusal
-- effects  writes the KEYS; publishes 0 to waiters that lost their positions, and to the first
--          waiter if the lock is free
-- cost     O(1) for a lock: TIME, HGET, DEL, LINDEX, ZSCORE, and the message; O(n log n) in the
--          waiters for a position in the queue
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local hold, verb, channel, wait_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(string.find(wait_ms, '^[1-9]%d*$') and tonumber(wait_ms) < MAX_NUMBER, 'bad argument')

-- include redisson/queue

local has = redis.pcall('HGET', lock, hold)
if type(has) == 'table' then
  if string.sub(has['err'], 1, 9) ~= 'WRONGTYPE' then
    return has
  end
  return {0, now}
end
if has then
  redis.call('DEL', lock)
else
  local rank = redis.call('LPOS', queue, hold)
  redis.call('ZREM', deadlines, hold)
  if rank then
    redis.call('LREM', queue, '0', hold)
    for _, owner in ipairs(redis.call('LRANGE', queue, rank, '-1')) do
      redis.call('ZINCRBY', deadlines, -wait_ms, owner) -- one waiter less is before them
    end
  end
end
local head = first_waiter()
if head and redis.call('EXISTS', lock) == 0 then
  notify(verb, channel .. head, '0')
end
if has then
  return {1, now}
end
return {0, now}
