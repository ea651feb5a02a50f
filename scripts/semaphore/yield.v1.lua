-- semaphore/yield v1
-- Asks whether permits that were handed over inside one process for a while may be handed over
-- further. They may if no ticket waits except those of that process for the same request. Otherwise
-- they are released, and what is free then is granted.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- KEYS[2]  queue  sorted set: see semaphore/enter v1
-- KEYS[3]  heartbeats  hash: see semaphore/enter v1
-- ARGV[1]  hold  its id (41), its weight (10) and the label of its session
-- ARGV[2]  life_us  of the hold, if it may continue
-- ARGV[3]  attempts  of the session, 19 characters each, that wait for what the hold can be handed
--          over to
-- ARGV[4]  session  that sends this, 22 characters
-- ARGV[5]  verb  PUBLISH or SPUBLISH
-- ARGV[6]  channel  of grants, without the session that it ends with
-- ARGV[7]  keep_ms  how long the key outlives its last use
-- returns  {0, now}  this hold has nothing here
--          {1, now, stamp}  it continues for life_us; stamp stands for as many us of tokens as the
--            greatest power of four says that it is a multiple of, up to 1024
--          {4, now, grants, more}  it was released; grants has attempt (19), stamp (16) and number
--            (20) of each of this session that has some now; more is 1 if a poll is due at once
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE twice, ZCARD, ZSCORE, ZADD, PEXPIRE; as
--          semaphore/leave if it is released
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local hold, life_us, attempts, session, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
assert(string.find(life_us .. ' ' .. keep_ms, '^[1-9]%d* %d+$') and life_us + keep_ms < MAX_NUMBER, 'bad argument')
local kind, after_ms, requester, caller = 'sb1s', keep_ms, session, ''
local own, may_create, no_tickets = '', false, false

-- include holds/ended
-- include semaphore/handoff

local has = made and redis.call('ZSCORE', holder, hold)
if not has or not capacity then
  return {0, now}
end
-- Before the first write: a foreign key makes the call fail without an effect.
local others = waiting
if waiting > 0 then
  redis.call('HLEN', heartbeats)
  local tickets = {}
  for at = 1, #attempts, ATTEMPT_LENGTH do
    tickets[#tickets + 1] = session .. string.sub(attempts, at, at + (ATTEMPT_LENGTH - 1)) .. string.sub(hold, ID_LENGTH + 1, WEIGHT_END)
  end
  for _, ticket in ipairs(#tickets > 0 and redis.call('ZMSCORE', queue, unpack(tickets)) or {}) do
    others = ticket and others - 1 or others
  end
end
-- Dead waiters count, for as long as they have tickets: then the permits go the long way, by the
-- queue.
if others == 0 and used <= capacity then
  local block = reserve()
  local ends = math.max(tonumber(now) + life_us, tonumber(has))
  write_hold(hold, string.format('%016.0f', ends), '-' .. block, kind)
  return {1, now, floor}
end

redis.call('ZREM', holder, hold)
deduct({hold})
deduct(remove_ended())
hand_off()
keep_key()
return {4, now, publish(), is_unfinished()}
