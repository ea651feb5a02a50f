-- redisson/fair-waiters v1
-- Returns the waiters, as RedissonFairLock has them, a page at a time.
--
-- KEYS[1]  queue  list: see redisson/fair-acquire v1
-- KEYS[2]  deadlines  sorted set: see redisson/fair-acquire v1
-- ARGV[1]  after  how many are before the page
-- ARGV[2]  count  of waiters in the page
-- returns  {waiter, ...}  in order, four each: hold, how many are before the next, 1 if its
--          deadline is not over, else 0, and the hold once more
-- effects  none
-- cost     O(after + count): TIME, LRANGE, ZSCORE each
local queue, deadlines = KEYS[1], KEYS[2]
local after, count = ARGV[1], ARGV[2]

-- include queue/now

local waiters = {}
local last = after + count - 1
for i, owner in ipairs(redis.call('LRANGE', queue, after, last)) do
  local till, n = redis.call('ZSCORE', deadlines, owner), #waiters
  waiters[n + 1], waiters[n + 2] = owner, string.format('%.0f', after + i)
  waiters[n + 3], waiters[n + 4] = till and tonumber(till) * US_PER_MS > tonumber(now) and 1 or 0, owner
end
return waiters
