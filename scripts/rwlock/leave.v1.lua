-- rwlock/leave v1
-- Ends an attempt: releases the lock, or removes its ticket from the queue, and grants the lock to
-- the waiters that may have it then. Any number of times.
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
-- ARGV[6]  certain  1 if the hold certainly has no ticket: the first and only reply to its only
--          enter was that it has the lock; else 0
-- returns  {0, now}  this hold has nothing here
--          {1, 0, '', 0}  it had the lock alone, and no session waits; the time was not asked for
--          {1, now, grants, more}  it had the lock; grants has attempt (19), stamp (16) and number
--            (20) of each of this session that has the lock now; more is 1 if a poll is due at once
--          {2, now, grants, more}  it had a ticket
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(log n) in the tickets and holds: certain and without the mark ZMSCORE and SET, or
--          beside others ZMSCORE, TIME, ZREM, ZRANGE; else ZMSCORE, TIME, ZCARD twice, ZREM,
--          ZRANGE; DEL and SET if no hold is left; more for each grant
local holder, queue, readers, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold, session, verb, channel, keep_ms, certain = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local kind, after_ms, requester, caller = 'sb1w', GRACE_MS, session, ''
local own, may_create, life_us = hold, false, 0

-- include holds/state

-- Without the mark no session waits. A writer and a reader that came alone have the lock alone. If
-- SET is refused, the long way begins with what needs no memory.
local no_tickets = certain == '1' and scores[7] and scores[6] ~= '1'
local alone = scores[2] == '1' or scores[2] == '3'
if no_tickets and alone and not redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)['err'] then
  return {1, 0, '', 0}
end

-- include holds/ended
-- include rwlock/handoff

local had = made and redis.call('ZREM', holder, hold) or 0
if had == 0 then
  local ticket = string.sub(hold, 1, ID_LENGTH)
  if redis.call('ZREM', queue, ticket) + redis.call('ZREM', readers, ticket) == 0 then
    return {0, now}
  end
end
if other then
  return {2, now, '', 0}
end
remove_ended()
hand_off()
set_free()
if had == 1 then
  return {1, now, publish(), is_unfinished()}
end
return {2, now, publish(), is_unfinished()}
