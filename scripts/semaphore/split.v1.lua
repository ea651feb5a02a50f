-- semaphore/split v1
-- Releases a part of a hold: a hold of fewer permits replaces it, and what is free then is granted.
-- Sent again for the same new hold it does no more than lengthen that.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- KEYS[2]  queue  sorted set: see semaphore/enter v1
-- KEYS[3]  heartbeats  hash: see semaphore/enter v1
-- ARGV[1]  ticket  of the new hold: id (41), and how many permits it keeps, 10 digits
-- ARGV[2]  life_us  of the new hold
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  hold  the old one: its id (41), its weight (10) and the label of its session
-- ARGV[5]  session  that sends this, 22 characters
-- ARGV[6]  verb  PUBLISH or SPUBLISH
-- ARGV[7]  channel  of grants, without the session that it ends with
-- ARGV[8]  keep_ms  how long the key outlives its last use
-- returns  {1, now, grants, more, stamp}  the new hold has its permits, and this is its token's
--          stamp; grants has attempt (19), stamp (16) and number (20) of each of this session that
--          has some now; more is 1 if a poll is due at once
--          {0, now}  neither hold has anything here
--          {-1, now}  later than not_after
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE, ZCARD, ZSCORE twice, ZREM, ZADD twice,
--          PEXPIRE, ZRANGE; more for each grant
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local ticket, life_us, not_after, hold, session, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
assert(string.find(life_us .. ' ' .. keep_ms, '^[1-9]%d* %d+$') and life_us + keep_ms < MAX_NUMBER
  and #ticket == WEIGHT_END and not string.find(ticket, '%D', ID_LENGTH + 1), 'bad argument')
local kind, after_ms, requester, caller = 'sb1s', keep_ms, session, ''
local own, may_create, no_tickets = '', false, false

-- include queue/now

if now > not_after then
  return {-1, now}
end

-- include holds/ended
-- include semaphore/handoff

if not made or not capacity then
  return {0, now}
end
local ends = tonumber(now) + life_us
local kept, fewer = redis.call('ZSCORE', holder, hold), ticket .. string.sub(hold, WEIGHT_END + 1)
local has = redis.call('ZSCORE', holder, fewer)
if has then
  write_hold(fewer, string.format('%016.0f', math.max(ends, tonumber(has))))
  return {1, now, '', 0, floor}
elseif not kept then
  return {0, now}
end
-- Before the first write: a foreign key makes the call fail without an effect.
if waiting > 0 then
  redis.call('HLEN', heartbeats)
end
redis.call('ZREM', holder, hold)
deduct({hold})
used = used + weight_of(ticket)
write_hold(fewer, string.format('%016.0f', math.max(ends, tonumber(kept))), used, 'used')
local stamp = floor
deduct(remove_ended())
hand_off()
return {1, now, publish(), is_unfinished(), stamp}
