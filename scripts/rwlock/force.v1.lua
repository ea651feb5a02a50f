-- rwlock/force v1
-- Ends holds of other sessions, and grants the lock to the waiters that may have it then. Sent
-- again it finds them gone.
--
-- KEYS[1]  holder  sorted set: see rwlock/enter v1
-- KEYS[2]  queue  sorted set: see rwlock/enter v1
-- KEYS[3]  readers  sorted set: see rwlock/enter v1
-- KEYS[4]  heartbeats  hash: see rwlock/enter v1
-- ARGV[1]  verb  PUBLISH or SPUBLISH
-- ARGV[2]  channel  of grants, without the session that it ends with
-- ARGV[3]  forced_channel  of a session, for its holds that end by force, without the session that
--          it ends with
-- ARGV[4]  holds  of each its session, and itself: its id (41) and the label; with a line feed
--          behind either
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- returns  {taken}  how many of them had it
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, and KEYS[1] to forced_channel of each session whose hold it ended
-- cost     O(holds log n), and as rwlock/leave v1
local holder, queue, readers, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local verb, channel, forced_channel, holds, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local kind, after_ms, session, requester, caller = 'sb1w', GRACE_MS, '', '', ''
local own, may_create, no_tickets, life_us = '', false, false, 0

-- include holds/ended
-- include rwlock/handoff

local taken, sessions = 0, {}
if made then
  for session, hold in string.gmatch(holds, '([^\n]*)\n([^\n]*)\n') do
    if redis.call('ZREM', holder, hold) == 1 then
      taken = taken + 1
      sessions[session] = true
    end
  end
end
if taken == 0 then
  return {taken}
end
remove_ended()
hand_off()
set_free()
publish()
for session in pairs(sessions) do
  -- PUBLISH reaches the hold's session at every node of a cluster.
  redis.pcall('PUBLISH', forced_channel .. session, holder)
end
return {taken}
