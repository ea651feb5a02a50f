-- lock/force v1
-- Ends the hold of another session, and grants the lock to the next in the queue. Sent again it
-- finds the hold gone.
--
-- KEYS[1]  holder  string: see lock/enter v1
-- KEYS[2]  queue  sorted set: see lock/enter v1; missing, as heartbeats is, while a slot moves
-- KEYS[3]  heartbeats  hash: see lock/enter v1
-- ARGV[1]  id  of the hold, 41 characters, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  of grants, without the session that it ends with
-- ARGV[4]  forced  the channel of the hold's session
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- returns  0  this hold has the lock no more
--          1  ended; the next in the queue and the hold's session get messages
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that
--          is granted the lock, and KEYS[1] to forced
-- cost     as lock/leave v1, and a message
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local id, verb, channel, forced, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local session = '' -- no session gets its grant in the reply

-- include lock/holder

if hold == '' or string.sub(hold, 1, ID_LENGTH) ~= id then
  return 0
end
floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1)) -- its whole block may be in use

-- include lock/handoff

if queue and is_marked then
  -- It waits no more. ZREM takes no memory either, and what follows it is not refused for that.
  redis.call('ZREM', queue, hold)
  hand_off(floor)
else
  set_free(floor, is_marked)
end
-- By the bus: whatever node the hold's session listens at.
redis.pcall('PUBLISH', forced, holder)
return 1
