-- lock/enter v1
-- Takes the lock if it is free and no queue may exist, without reading the queue. Otherwise the
-- caller gets a ticket at the end of the queue; one that only tries gets none. Sent again for the
-- same ticket it keeps ticket and hold.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  queue  sorted set: ticket -> the server's microseconds at its arrival; missing, as
--          heartbeats is, while a slot moves
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  unmarked  ticket and '-': what the key of a hold has behind the stamp. A ticket is an
--            id (41), the first 22 of them the session, and mode (1): r for a turn, k for one whose
--            hold may be idle, f for a fair request; R and F are r and f of a holder that wants to
--            learn of waiters. It is fresh for every attempt
-- ARGV[2]  life_ms  how long the hold lasts if the lock is free
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  label  of the caller, 0 to 64 bytes
-- ARGV[5]  waiting  what only a lock needs that is not free, with blanks between; may be left out
--          queues  1 to queue, 0 to try
--          heartbeat_us  what the heartbeat in this call gives the session, 30 seconds at the most
--          number  the heartbeat's: 12 digits and 8 random characters; or '' for no heartbeat
--          keep_ms  how long the floor of a free lock is kept
--          verb  PUBLISH or SPUBLISH
--          channel  of grants, without the session that it ends with
-- returns  {1, stamp, now}  it holds, for life_ms from now; the tokens of stamp to stamp + 255 are
--          the hold's
--          stamp  an integer and no array: the same, if stamp is now
--          {0, left_us, more, now}  it does not; another hold lasts left_us at the most; more is 1
--            if a poll is due at once
--          {-1, now}  later than not_after
--          {-2, kind}  the name is in use by another kind of lock, or is no lock's key ('?')
--          {-3, now}  nothing is decided: that needs the queue or waiting, which was left out
-- effects  writes the KEYS, the mark before the ticket; publishes attempt, stamp and number to the
--          channel of the session that is granted the lock, unless it sent this; recalls a hold
--          that may be idle and has no mark yet; sends the same message to a hold with R or F, for a
--          ticket of another session that is the first to wait as far as mark and tail show
-- cost     O(log n) in the tickets: TIME, GET, SET if the lock is free; TIME, GET, PTTL, ZRANGE,
--          HMGET, ZADD if it is held; more for the first ticket, a heartbeat and the dead, and HGET
--          behind the tail if the hold has R or F
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local unmarked, life_ms, not_after, label, waiting = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- include queue/now
-- include lock/value
-- A lock that is free and has no mark, by no more than that needs. SET checks life_ms,
-- and '30000' is NOTED_LIFE_MS.
if now <= not_after and (not value or #value == STAMP_END and string.sub(value, 1, 4) == 'sb1-' and string.sub(value, STAMP_START) < now)
  and #unmarked == TICKET_LENGTH + 1 and #label <= MAX_LABEL and (#life_ms < 5 or #life_ms == 5 and life_ms <= '30000') then
  redis.call('SET', holder, 'sb1l' .. now .. unmarked .. label, 'PX', life_ms)
  return time[1] * US_PER_SECOND + time[2] -- of three elements a client would make five objects
end

assert(string.find(life_ms, '^[1-9]%d*$') and #life_ms <= MAX_DIGITS and #unmarked == TICKET_LENGTH + 1 and #label <= MAX_LABEL, 'bad argument')
if now > not_after then
  return {-1, now}
end

-- include lock/holder
if other then
  return {-2, other}
end

local ms = tonumber(life_ms)
local tail_of_hold = ms > NOTED_LIFE_MS and label .. '\n' .. string.format('%.0f', ms) or label -- see lock/longest
-- No functions that the common paths do not need: each call makes them anew.
if hold == '' and not is_marked then
  if now > floor then
    redis.call('SET', holder, 'sb1l' .. now .. unmarked .. tail_of_hold, 'PX', ms)
    return tonumber(now)
  end
  local stamp = string.format('%016.0f', tonumber(floor) + 1)
  redis.call('SET', holder, 'sb1l' .. stamp .. unmarked .. tail_of_hold, 'PX', ms)
  return {1, stamp, now}
elseif not waiting then
  return {-3, now}
end

local ticket = string.sub(unmarked, 1, TICKET_LENGTH)
local queues, heartbeat_us, number, keep_ms, verb, channel = string.match(waiting, '^([01]) ([1-9]%d*) (%S*) (%d+) (S?PUBLISH) (.*)$')
assert(queues and #number % NUMBER_LENGTH == 0 and life_ms + heartbeat_us + keep_ms < MAX_NUMBER, 'bad argument')

-- include lock/time-left
if hold == ticket then
  -- include lock/lengthen
  lengthen(ms)
  return {1, floor, now}
elseif hold ~= '' and left_us == 0 then
  floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1)) -- it ended by itself: its whole block may be in use
end
if not queue or queues == '0' and left_us > 0 then
  if not is_marked then
    -- include lock/recall
    recall('k')
  end
  if queues == '0' then
    return {0, left_us, 0, now}
  end
  return {-3, now}
end

local session = string.sub(ticket, 1, SESSION_LENGTH)
local tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')
local joins, before = queues == '1' and (left_us > 0 or tail[1]), {}
-- include queue/alive
if joins then
  before = redis.call('HMGET', heartbeats, session, 'from', 'from2')
  -- include lock/mark
  if not is_marked then
    mark()
    is_marked = true
  elseif left_us > 0 and string.find(hold, '[RF]', TICKET_LENGTH) then
    -- No ticket before this one may have sent a message that counts: there is none, they are the
    -- holder's own, or dead.
    local owner, behind = string.sub(hold, 1, SESSION_LENGTH), string.sub(tail[1] or '', 1, SESSION_LENGTH)
    local life = behind ~= '' and (behind == session and before[1] or redis.call('HGET', heartbeats, behind))
    if owner ~= session and (behind == owner or not is_alive(life, now)) then
      recall('[RF]')
    end
  end
  local score = now
  if tail[1] and tonumber(tail[2]) >= tonumber(now) then
    score = string.format('%.0f', tail[2] + 1) -- the clock was set back: the last comes last all the same
  end
  redis.call('ZADD', queue, 'NX', score, ticket)
  if not tail[1] and type(redis.pcall('PEXPIRE', queue, QUEUE_TTL_MS)) == 'table' then -- polls keep it
    -- A sender without the right to that leaves no key without an end.
    redis.call('ZREM', queue, ticket)
    redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
  end
end

if left_us > 0 and number == '' and is_alive(before[1], now) then
  return {0, left_us, 0, now}
end

-- include queue/listening
-- include queue/heartbeat
-- include lock/handoff

if joins and number ~= '' then
  heartbeat(before, listening())
elseif joins and not is_alive(before[1], now) then
  more = 1 -- it thought that its session was alive
end
if left_us > 0 then
  return {0, left_us, more, now}
end
local chosen, stamp, _ = '', nil, nil
is_marked = false
if tail[1] then
  chosen, stamp, _, left_us = hand_off(floor)
end
if chosen == ticket then
  raise(holder, left_us, ms)
  return {1, stamp, now}
elseif chosen == '' and more == 0 and not joins then
  -- A try takes the lock before dead waiters, and before no others.
  stamp = next_stamp(floor)
  redis.call('SET', holder, 'sb1l' .. stamp .. ticket .. (is_marked and 'q' or '-') .. tail_of_hold, 'PX', is_marked and ms + GRACE_MS or ms)
  return {1, stamp, now}
end
if string.sub(chosen, 1, SESSION_LENGTH) == session then
  more = 1 -- another attempt of the session holds, and hears of it by the poll
end
return {0, left_us, more, now}
