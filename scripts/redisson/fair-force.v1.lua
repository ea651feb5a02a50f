-- redisson/fair-force v1
-- Ends a hold by force, as RedissonFairLock has it, and notifies the first waiter. Sent again
-- it finds the hold gone.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- KEYS[2]  queue  list: see redisson/fair-acquire v1
-- KEYS[3]  deadlines  sorted set: see redisson/fair-acquire v1
-- ARGV[1]  hold  the field of the hold, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen, without the hold that it ends with
-- ARGV[4]  forced  the channel of the hold's session, if it is one of this library
-- returns  0          this hold has it no more
--          1          ended; the first waiter and the hold's session get messages
--          an error   the server's refusal
-- effects  writes the KEYS; publishes 0 to waiters that lost their positions and to the first
--          waiter, and KEYS[1] to forced
-- cost     O(1): TIME, HMGET, DEL, LINDEX, ZSCORE, and two messages
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local hold, verb, channel, forced = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include redisson/queue

-- A hash with a mode is a read-write lock's. Java names the fields of both by client and thread.
local fields = redis.pcall('HMGET', lock, hold, 'mode')
if fields['err'] and string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
  return fields
end
if not fields[1] or fields[2] then
  return 0
end
redis.call('DEL', lock)
local head = first_waiter()
if head then
  notify(verb, channel .. head, '0')
end
-- By the bus: whatever node the holder's session listens at.
redis.pcall('PUBLISH', forced, lock)
return 1
