-- semaphore/poll v1
-- A heartbeat of a session that waits: it grants what is free, and returns what became of the
-- session's attempts.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- KEYS[2]  queue  sorted set: see semaphore/enter v1
-- KEYS[3]  heartbeats  hash: see semaphore/enter v1
-- ARGV[1]  session  22 characters
-- ARGV[2]  heartbeat_us  what the heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[3]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[4]  label  what the caller is called, 0 to 64 bytes
-- ARGV[5]  verb  PUBLISH or SPUBLISH
-- ARGV[6]  channel  of grants, without the session that it ends with
-- ARGV[7]  attempts  of the session, 19 characters and the weight (10) each, that wait: those of
--          them that have permits get heartbeat_us from now
-- ARGV[8]  keep_ms  how long the key outlives its last use
-- returns  {1, left_us, more, grants, states, now, unlisted}  the first hold ends in left_us
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
--          grants has attempt (19), stamp (16) and number (20) of each that has its permits; states
--          a 1 for each of attempts that has a ticket, 2 if it has its permits, else 0; more
--          is 1 if a poll is due at once; unlisted is left out unless a ticket of the session that
--          is not among attempts keeps out those behind it: then it is the ticket without the
--          session
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions, except this one
-- cost     O(attempts log n): TIME, ZMSCORE, ZCARD, PEXPIRE, PUBSUB, the heartbeat, ZMSCORE twice,
--          ZRANGE twice; more for each grant
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local session, heartbeat_us, number, label, verb, channel, attempts, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
assert(string.find(heartbeat_us .. ' ' .. keep_ms, '^[1-9]%d* %d+$') and heartbeat_us + keep_ms < MAX_NUMBER
  and #number == NUMBER_LENGTH and #label <= MAX_LABEL, 'bad argument')
local kind, after_ms, requester, caller = 'sb1s', keep_ms, session, ''
local own, may_create, no_tickets, life_us = '', false, false, 0

-- include queue/heartbeat
-- include queue/listening
-- include holds/ended
-- include holds/bound
-- include semaphore/handoff

if other then
  return {-2, other}
end

local before = redis.call('HMGET', heartbeats, session, 'from', 'from2')
-- Before the heartbeat, since it takes no memory: what follows is then not refused if memory is
-- full.
redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
heartbeat(before, listening())

local states, tickets, holds = '', {}, {}
for at = 1, #attempts, WEIGHT_END - SESSION_LENGTH do
  local ticket = session .. string.sub(attempts, at, at + (WEIGHT_END - SESSION_LENGTH - 1))
  tickets[#tickets + 1], holds[#holds + 1] = ticket, ticket .. label
end
if #tickets > 0 then
  local has = made and redis.call('ZMSCORE', holder, unpack(holds)) or {}
  local waits = redis.call('ZMSCORE', queue, unpack(tickets))
  local ends = tonumber(now) + heartbeat_us
  for n, ticket in ipairs(tickets) do
    if has[n] then
      -- It waits for this reply: it has its permits for heartbeat_us from now, also if its grant
      -- ran out unread. They counted until now, so no other hold has them.
      local block = reserve()
      write_hold(holds[n], string.format('%016.0f', math.max(ends, tonumber(has[n]))), '-' .. block, kind)
      announce(ticket, number)
      floor = block
      states = states .. '2'
    elseif waits[n] and capacity and weight_of(ticket) > capacity then
      redis.call('ZREM', queue, ticket)
      states = states .. '0' -- it enters again, and the reply says how many there are
    else
      states = states .. (waits[n] and '1' or '0')
    end
  end
end

bound_holds()
deduct(remove_ended())
if capacity then
  hand_off()
else
  states = string.rep('0', #states) -- the server lost the key: they come again, and say how many permits there are
end
if grants > 0 then
  find_first()
end
-- include queue/unlisted
return {1, left_us, is_unfinished(), publish(), states, now, find_unlisted()}
