-- lock/poll v1
-- A session that waits sends a heartbeat, hands over a free lock, and learns what became of its
-- attempts. A poll that lists no ticket is granted nothing.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  queue  sorted set: ticket -> the server's microseconds at its arrival; missing, as
--          heartbeats is, while a slot moves
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  session  22 characters
-- ARGV[2]  heartbeat_us  what the heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[3]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[4]  label  of the caller, 0 to 64 bytes
-- ARGV[5]  verb  PUBLISH or SPUBLISH
-- ARGV[6]  channel  of grants, without the session that it ends with
-- ARGV[7]  attempts  of the session that wait, 20 characters each: attempt (19) and mode (1); one
--          of them that holds gets heartbeat_us from now
-- ARGV[8]  keep_ms  how long the floor of a free lock is kept
-- returns  {1, left_us, more, grants, states, now, stamp}  the hold of another or its own lasts
--          left_us at the most
--          {-2, kind}  the name is in use by another kind of lock, or is no lock's key ('?')
--          grants is '', or if an attempt of the session holds that attempt (19), stamp (16), and
--          the number (20) of the heartbeat that its life counts from, dashes if that is not known;
--          states has a 1 for each of attempts that has a ticket, else a 0, and is '' if only the
--          holder key was sent; more is 1 if a poll is due at once; stamp is that of the hold, or
--          ''
-- effects  writes the KEYS; marks a key that is held without a mark while an attempt has a ticket;
--          publishes attempt, stamp and number to the channel of the session that is granted the
--          lock, unless it sent this; recalls a hold that may be idle when it marks it
-- cost     O(attempts log n): TIME, GET, PTTL, ZMSCORE, HMGET, PEXPIRE, PUBSUB, HSET; more if the
--          lock is handed over
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local session, heartbeat_us, number, label, verb, channel, attempts, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
assert(string.find(heartbeat_us .. ' ' .. keep_ms, '^[1-9]%d* %d+$') and heartbeat_us + keep_ms < MAX_NUMBER
  and #number == NUMBER_LENGTH and #label <= MAX_LABEL, 'bad argument')

-- include queue/now
-- include lock/holder
if other then
  return {-2, other}
end

-- include lock/lengthen

local tickets, is_own = {}, false
for at = 1, #attempts, ATTEMPT_LENGTH + 1 do
  tickets[#tickets + 1] = session .. string.sub(attempts, at, at + ATTEMPT_LENGTH)
  is_own = is_own or tickets[#tickets] == hold
end
local ms, paid, states = math.ceil(heartbeat_us / US_PER_MS), string.rep('-', NUMBER_LENGTH), ''
if hold ~= '' and left_us == 0 and not is_own then
  hold, floor = '', string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1)) -- it ended by itself: its whole block may be in use
end

if not queue then
  if is_own then
    left_us, paid = lengthen(ms), number
  elseif is_marked and left_us == 0 then
    -- The mark outlives the hold. PEXPIRE takes no memory, and what follows it is not refused for
    -- that.
    redis.call('PEXPIRE', holder, GRACE_MS)
    redis.call('SET', holder, 'sb1l' .. floor .. string.rep('-', TICKET_LENGTH) .. 'q', 'PX', QUEUE_TTL_MS)
  end
  if string.sub(hold, 1, SESSION_LENGTH) ~= session then
    return {1, left_us, 0, '', states, now, ''}
  end
  return {1, left_us, 0, string.sub(hold, SESSION_LENGTH + 1, ID_LENGTH) .. floor .. paid, states, now, ''}
end

local listed = false
local scores = #tickets > 0 and redis.call('ZMSCORE', queue, unpack(tickets)) or {}
for n = 1, #tickets do
  listed = listed or scores[n]
  states = states .. (scores[n] and '1' or '0')
end

-- include queue/listening
-- include queue/heartbeat
-- include lock/handoff
-- include lock/mark

if is_own then
  left_us, paid = lengthen(ms), number
end
if listed then
  local before = redis.call('HMGET', heartbeats, session, 'from', 'from2')
  -- Before the heartbeat, since it takes no memory: what follows is then not refused for that.
  redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
  heartbeat(before, listening())
  if is_own or left_us > 0 then
    if not is_marked then
      mark() -- it was lost with the key
    end
  else
    hold, floor, paid, left_us = hand_off(floor)
  end
end
local grants = ''
if string.sub(hold, 1, SESSION_LENGTH) == session then
  grants = string.sub(hold, SESSION_LENGTH + 1, ID_LENGTH) .. floor .. paid
end
return {1, left_us, more, grants, states, now, hold ~= '' and floor or ''}
