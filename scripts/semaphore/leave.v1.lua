-- semaphore/leave v1
-- Ends an attempt: releases its permits, or removes its ticket from the queue, and grants what is
-- free then. Any number of times.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- KEYS[2]  queue  sorted set: see semaphore/enter v1
-- KEYS[3]  heartbeats  hash: see semaphore/enter v1
-- ARGV[1]  hold  its id (41), its weight (10) and the label of its session
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the key outlives its last use
-- ARGV[6]  certain  1 if the hold certainly has no ticket: the first and only reply to its only
--          enter was that it has the permits; else 0
-- returns  {0, now}  this hold has nothing here
--          {1, 0, '', 0}  it had permits, and no session waits; the time was not asked for
--          {1, now, grants, more}  it had permits; grants has attempt (19), stamp (16) and number
--            (20) of each of this session that has some now; more is 1 if a poll is due at once
--          {2, now, grants, more}  it had a ticket
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(log n) in the tickets and holds: certain and without the mark ZMSCORE, ZREM, ZADD,
--          PEXPIRE; else ZMSCORE, TIME, ZCARD, ZREM, PEXPIRE, ZRANGE, ZADD; more if a session waits
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local hold, session, verb, channel, keep_ms, certain = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local kind, after_ms, requester, caller = 'sb1s', keep_ms, session, ''
local own, may_create, life_us = hold, false, 0

-- include holds/state
-- include key/lengthen

-- Without the mark no session waits, and what is free is for the next that comes. Holds that have
-- ended are removed by the next enter that finds too few free.
local no_tickets = false
if certain == '1' and scores[7] and scores[3] and scores[4] and scores[6] ~= '1' then
  local left = scores[3] - tonumber(string.sub(hold, ID_LENGTH + 1, WEIGHT_END))
  redis.call('ZREM', holder, hold)
  redis.call('ZADD', holder, left, 'used')
  local ms = math.max(tonumber(keep_ms), tonumber(scores[5] or 0))
  if left > 0 then
    pcall(lengthen_key, holder, ms)
  else
    redis.pcall('PEXPIRE', holder, ms)
  end
  return {1, 0, '', 0}
end

-- include holds/ended
-- include semaphore/handoff

-- Before the first write: a foreign key makes the call fail without an effect.
if waiting > 0 then
  redis.call('HLEN', heartbeats)
end
local had = made and redis.call('ZREM', holder, hold) or 0
if had == 1 then
  deduct({hold})
else
  if made then
    count_holds(ENDED_PAGE)
  end
  if redis.call('ZREM', queue, string.sub(hold, 1, WEIGHT_END)) == 0 and used == (counted or 0) then
    return {0, now}
  end
end
if other or not capacity then
  return {2, now, '', 0}
end
deduct(remove_ended())
hand_off()
keep_key()
if had == 1 then
  return {1, now, publish(), is_unfinished()}
end
return {2, now, publish(), is_unfinished()}
