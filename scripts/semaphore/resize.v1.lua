-- semaphore/resize v1
-- Sets how many permits there are. Fewer end no hold; more are granted at once.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- KEYS[2]  queue  sorted set: see semaphore/enter v1
-- KEYS[3]  heartbeats  hash: see semaphore/enter v1
-- ARGV[1]  permits  how many there are to be
-- ARGV[2]  not_after  stamp: later than that nothing is done
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the key outlives its last use; an hour at the least from now on
-- returns  {1, now, more}  done; more is 1 if a poll is due at once
--          {-1, now}  later than not_after
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions
-- cost     O(log n): TIME, ZMSCORE, ZCARD, PEXPIRE, ZADD, ZRANGE; more for each grant
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local permits, not_after, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(string.find(permits .. ' ' .. keep_ms, '^%d+ %d+$') and permits + keep_ms < MAX_NUMBER, 'bad argument')
local kind, after_ms, session, requester, caller = 'sb1s', keep_ms, '', '', ''
local own, may_create, no_tickets, life_us = '', false, false, 0

-- include queue/now

if now > not_after then
  return {-1, now}
end

-- include holds/ended
-- include semaphore/handoff

if other then
  return {-2, other}
end
-- Before the first write: a foreign key makes the call fail without an effect.
if waiting > 0 then
  redis.call('HLEN', heartbeats)
end
after_ms = math.max(after_ms, RESIZED_TTL_MS)
if not made then
  floor = released and floor or now
  make_key(after_ms, '-' .. floor, kind, 0, 'used')
else
  lengthen_key(holder, after_ms)
end
capacity = tonumber(permits)
redis.call('ZADD', holder, permits, 'capacity', after_ms, 'kept')
deduct(remove_ended())
hand_off()
publish()
return {1, now, is_unfinished()}
