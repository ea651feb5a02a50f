-- queue/heartbeat v1
-- A heartbeat alone of a session that waits. It has one key, so that it works while the slot is
-- moved to another node of a cluster.
--
-- KEYS[1]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  session  22 characters
-- ARGV[2]  heartbeat_us  what the heartbeat gives the session, 30 seconds at the most
-- ARGV[3]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[4]  label  what the caller is called, 0 to 64 bytes
-- returns  1  always
-- effects  writes KEYS[1]; publishes nothing
-- cost     O(1): TIME, HMGET, HSET
local heartbeats = KEYS[1]
local session, heartbeat_us, number, label = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(string.find(heartbeat_us, '^[1-9]%d*$') and tonumber(heartbeat_us) < MAX_NUMBER
  and #number == NUMBER_LENGTH and #label <= MAX_LABEL, 'bad argument')

-- include queue/heartbeat

heartbeat(redis.call('HMGET', heartbeats, session, 'from', 'from2'))
return 1
