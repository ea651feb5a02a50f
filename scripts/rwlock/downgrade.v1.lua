-- rwlock/downgrade v1
-- Makes a writer's hold a reader's, and grants the lock to the readers that wait. Sent again it
-- finds a reader.
--
-- KEYS[1]  holder  sorted set: see rwlock/enter v1
-- KEYS[2]  queue  sorted set: see rwlock/enter v1
-- KEYS[3]  readers  sorted set: see rwlock/enter v1
-- KEYS[4]  heartbeats  hash: see rwlock/enter v1
-- ARGV[1]  hold  its id (41), and the label of its session
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- returns  {0, now}  this hold has the lock no more
--          {1, now, grants, more}  it reads; grants has attempt (19), stamp (16) and number (20) of
--            each of this session that has the lock now; more is 1 if a poll is due at once
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE, ZCARD twice, ZSCORE, PEXPIRE, ZADD
--          twice; more for each grant
local holder, queue, readers, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, session, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local kind, after_ms, requester, caller = 'sb1w', GRACE_MS, session, ''
local own, may_create, no_tickets, life_us = '', false, false, 0

local first -- when the first of the holds ends: this one, while it writes
-- include rwlock/handoff

first = made and redis.call('ZSCORE', holder, hold)
if not first or tonumber(first) <= tonumber(now) then
  return {0, now}
end
if phase == '1' then
  phase = '2'
  lengthen_key(holder, after_ms) -- takes no memory: what follows is then not refused if memory is full
  redis.call('ZADD', holder, 2, 'phase')
  hand_off()
end
return {1, now, publish(), more}
