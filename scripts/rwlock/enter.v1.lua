-- rwlock/enter v1
-- Takes the lock, as a reader or as a writer, if it is free for that and no session that is alive
-- waits before. Otherwise the caller gets a ticket at the end of the queue, unless it only tries.
-- Sent again for the same hold it keeps ticket and lock, and a writer its token; a reader's may be
-- that of a later reader then.
--
-- KEYS[1]  holder  sorted set: ticket and label -> when it ends; 'sb1w' -> the floor, below 0;
--          'phase'; see README.md
-- KEYS[2]  queue  sorted set of the waiting writers: ticket -> arrival, the server's microseconds
--          at its arrival
-- KEYS[3]  readers  sorted set of the waiting readers: ticket -> arrival
-- KEYS[4]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from',
--          'from2' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  ticket  its id, 41 characters
-- ARGV[2]  life_us  of the hold, if it is given at once
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  queues  1 takes a ticket, 0 only tries
-- ARGV[5]  heartbeat_us  what a heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters; '' if none is needed
-- ARGV[7]  label  what the caller is called, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the floor of a free lock is kept
-- ARGV[11]  mode  r or w
-- ARGV[12]  again  1 if an enter of this hold was sent before, else 0
-- returns  {1, stamp, now}  it has the lock, and this is its token's stamp
--          {0, left_us, more, now}  it has not: the first of the holds ends in left_us; more is 1
--            if a poll is due at once
--          {-1, now}  later than not_after
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions; recalls a hold of another kind that may be idle
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE; free: SET, DEL, ZADD, PEXPIRE; beside
--          others: ZADD, PEXPIRE; with the mark ZCARD twice; queued: HGET, ZRANGE 4 times, ZADD,
--          PEXPIRE, PUBSUB and the heartbeat; more for each grant
local holder, queue, readers, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, life_us, not_after, queues, heartbeat_us, number, label, verb, channel, keep_ms, mode, again = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
assert(string.find(life_us .. ' ' .. heartbeat_us .. ' ' .. keep_ms, '^[1-9]%d* [1-9]%d* %d+$') and life_us + heartbeat_us + keep_ms < MAX_NUMBER
  and #ticket == ID_LENGTH and #number % NUMBER_LENGTH == 0 and #label <= MAX_LABEL, 'bad argument')
local kind, after_ms, session, caller, requester = 'sb1w', GRACE_MS, string.sub(ticket, 1, SESSION_LENGTH), ticket, ''
local own, may_create = ticket .. label, true

-- include queue/heartbeat
-- include queue/listening
-- include queue/search
-- include queue/join

if now > not_after then
  return {-1, now}
end

-- include holds/state
-- An enter that is sent again may have a ticket although the mark was lost with the key.
local no_tickets = scores[6] ~= '1' and not is_lost and again ~= '1'

-- include holds/lengthen
-- include holds/ended
-- include holds/bound
-- include rwlock/handoff

if other then
  if other == 'l' then
    local hold = string.sub(redis.call('GET', holder), ID_START, MODE_AT)
    -- include lock/recall
    recall('k')
  end
  return {-2, other}
end

local full = string.format('%016.0f', tonumber(now) + life_us)
if scores[7] then
  lengthen(own, full)
  return {1, floor, now}
end

-- No session waits, and a reader joins others, or the caller is the first: the other holds need not
-- be known.
if waiting == 0 and not made then
  write_hold(own, full, mode == 'r' and 3 or 1, 'phase')
  return {1, floor, now}
elseif waiting == 0 and mode == 'r' and phase and phase ~= '1' then
  write_hold(own, full, 0, 'phase', 0, 'queue')
  return {1, floor, now}
end

-- Read before the first write: a foreign key makes the call fail without an effect.
local before = queues == '1' and redis.call('HMGET', heartbeats, session, 'from', 'from2')
if no_tickets and queues == '1' then
  waiting = redis.call('ZCARD', queue) + redis.call('ZCARD', readers)
end
bound_holds()
remove_ended()
local free = not first
local takes = free and waiting == 0
if not takes then
  local due = 0
  if queues == '1' then
    mark()
    join(mode == 'r' and readers or queue, {queue, readers}, ticket)
    waiting = waiting + 1
    if number ~= '' then
      heartbeat(before, listening())
    elseif not is_alive(before[1], now) then
      due = 1 -- it thought that its session was alive
    end
  end
  hand_off()
  more = math.max(more, due)
  if granted[ticket] then
    lengthen(own, full)
    publish()
    return {1, granted[ticket], now}
  end
  -- A try takes the lock before dead waiters, and before no others.
  if queues == '0' and more == 0 then
    if mode == 'r' then
      takes = is_open
    else
      takes = free and grants == 0
    end
  end
end
publish()
if takes then
  write_hold(own, full, mode == 'r' and 0 or 1, 'phase', mark_score(), 'queue')
  return {1, floor, now}
end
if grants > 0 then
  find_first()
end
return {0, left_us, is_unfinished(), now}
