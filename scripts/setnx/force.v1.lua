-- setnx/force v1
-- Ends a hold by force, as SET with NX makes it, of whatever client. Sent again it finds the hold
-- gone.
--
-- KEYS[1]  lock  string: see setnx/acquire v1
-- ARGV[1]  hold  the value of the key, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  on which waiters listen
-- ARGV[4]  forced  the channel of the hold's session, if it is one of this library
-- returns  0        this hold has it no more
--          1        ended; waiters and the hold's session were notified
--          an error   the server's refusal
-- effects  deletes KEYS[1]; publishes 0 to channel, and KEYS[1] to forced
-- cost     O(1): GET, DEL and two messages
local lock = KEYS[1]
local hold, verb, channel, forced = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include redisson/notify

local value = redis.pcall('GET', lock)
if type(value) == 'table' and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
  return value
end
if value ~= hold then
  return 0
end
redis.call('DEL', lock)
notify(verb, channel, '0')
-- By the bus: whatever node the holder's session listens at.
redis.pcall('PUBLISH', forced, lock)
return 1
