-- holder/force v1
-- Ends the hold of another session, for kinds that grant nothing at a release. Sent
-- again it finds the hold gone.
--
-- KEYS[1]  holder  string: see redlock/acquire v1
-- ARGV[1]  id  of the hold, 41 characters, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  on which waiters listen
-- ARGV[4]  forced  the channel of the hold's session
-- ARGV[5]  keep_ms  how long the floor is kept, at the least
-- returns  0        this hold has it no more
--          1        ended; waiters and the hold's session get messages
-- effects  writes KEYS[1]: the floor stays for keep_ms, and for the life of the hold, within which
--          its session asks for it; publishes 8 characters of that session to channel, and KEYS[1]
--          to forced
-- cost     O(1): GET, DEL, SET and two messages
local holder = KEYS[1]
local id, verb, channel, forced, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 3) ~= 'sb1' or string.sub(value, 4, 4) == 'l' or string.sub(value, ID_START, ID_END) ~= id then
  return 0
end
-- include lock/longest
redis.call('DEL', holder)
if (tonumber(keep_ms) or 0) < longest_ms(value) then
  keep_ms = longest_ms(value)
end
redis.pcall('SET', holder, 'sb1-' .. string.sub(value, STAMP_START, STAMP_END), 'PX', keep_ms)
redis.pcall(verb, channel, string.sub(id, 1, 8))
-- PUBLISH reaches the holder's session at every node of a cluster.
redis.pcall('PUBLISH', forced, holder)
return 1
