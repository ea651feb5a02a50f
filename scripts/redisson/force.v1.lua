-- redisson/force v1
-- Takes a lock, as Redisson's RLock has it, from a hold that somebody else has. Sent again it finds the hold gone.
--
-- KEYS[1]  lock     hash: see redisson/acquire v1
-- ARGV[1]  hold     the field of who has it, as far as the sender knows
-- ARGV[2]  verb     PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen
-- ARGV[4]  told     the channel of the hold's session, where it is one of ours
-- returns  0        this hold has it no more
--          1        taken; waiters and the hold's session were told
-- effects  writes KEYS[1]; publishes 0 to channel, and KEYS[1] to told
-- cost     O(1): HGET, DEL and two messages
local lock = KEYS[1]
local hold, verb, channel, told = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if not redis.call('HGET', lock, hold) then
  return 0
end
redis.call('DEL', lock)
redis.pcall(verb, channel, '0')
-- By the bus: whatever node the holder's session listens at.
redis.pcall('PUBLISH', told, lock)
return 1
