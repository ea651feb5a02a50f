-- redisson/force v1
-- Ends a hold by force, as Redisson's RLock has it. Sent again it finds the hold gone.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- KEYS[2]  _token  not used, and an RFencedLock's alone: the counter stays
-- ARGV[1]  hold  the field of the hold, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- ARGV[4]  forced  the channel of the hold's session, if it is one of this library
-- returns  0        this hold has it no more
--          1        ended; waiters and the hold's session get messages
--          an error   the server's refusal
-- effects  writes KEYS[1]; publishes 0 to channel, and KEYS[1] to forced
-- cost     O(1): HMGET, DEL and two messages
local lock, _token = KEYS[1], KEYS[2]
local hold, verb, channel, forced = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include redisson/notify

-- A hash with a mode is a read-write lock's. Java names the fields of both by client and thread.
local fields = redis.pcall('HMGET', lock, hold, 'mode')
if fields['err'] and string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
  return fields
end
if not fields[1] or fields[2] then
  return 0
end
redis.call('DEL', lock)
notify(verb, channel, '0')
-- By the bus: whatever node the holder's session listens at.
redis.pcall('PUBLISH', forced, lock)
return 1
