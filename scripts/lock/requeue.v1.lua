-- lock/requeue v1
-- Ends one attempt, and queues another of its session behind all others. The first is ended in any
-- case, the second gets a ticket only in time and if a queue may exist; if none can, it holds at
-- once.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  queue  sorted set: ticket -> the server's microseconds at its arrival; missing, as
--          heartbeats is, while a slot moves
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  old  ticket that is ended: id (41) and mode (1)
-- ARGV[2]  new  ticket that queues: fresh
-- ARGV[3]  life_us  how long its hold lasts if it is granted the lock at once
-- ARGV[4]  not_after  stamp; executed later, no ticket is made
-- ARGV[5]  heartbeat_us  what the heartbeat in this call gives the session, 30 seconds at the most;
--          it is not written if its life has 7/8 of that left
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[7]  label  of the caller, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the floor of a free lock is kept
-- ARGV[11]  used  stamp of the last token of old that was used; '' if it is not known: the last of
--          the block then
-- ARGV[12]  certain  1 if old has no ticket for certain, else 0
-- returns  {1, stamp, now, old_gone, had}  new holds, for life_us from now; the tokens of stamp to
--          stamp + 255 are the hold's
--          {0, left_us, more, now, grants, old_gone, had}  new queues; another hold lasts left_us
--            at the most; grants is '', or if another attempt of the session holds now that attempt
--            (19), stamp (16) and number (20); more is 1 if a poll is due at once
--          {4, now, old_gone, had}  old is ended, and new has no ticket
--          {-2, kind}  the name is in use by another kind of lock, or is no lock's key ('?')
--          {-3, now}  only the holder key was sent, and old did not hold: nothing is decided
--          old_gone is 1 if old has nothing left for certain, and had is 1 if it held
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that
--          is granted the lock, unless the reply says it; sends a recall to a hold of another
--          session with R or F, for which old was lost
-- cost     O(log n) in the tickets: TIME, GET, SET if no queue can exist; else TIME, GET, HMGET,
--          ZRANGE, ZADD, ZPOPMIN, HGET, SET and the message; PUBSUB and HSET too if the session's
--          life has to be lengthened, and ZREM if it is not certain; the dead at the head cost more
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local old, new, life_us, not_after, heartbeat_us, number, label, verb, channel, keep_ms, used, certain = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
assert(string.find(life_us .. ' ' .. heartbeat_us .. ' ' .. keep_ms, '^[1-9]%d* [1-9]%d* %d+$') and life_us + heartbeat_us + keep_ms < MAX_NUMBER and #new == TICKET_LENGTH and #number == NUMBER_LENGTH and #label <= MAX_LABEL, 'bad argument')

-- include queue/now
-- include lock/holder
if other then
  return {-2, other}
end

local is_holder, in_time, ms = hold == old, now <= not_after, math.ceil(life_us / US_PER_MS)
local old_gone, had = (queue or certain == '1') and 1 or 0, is_holder and 1 or 0
if not queue and not is_holder and hold ~= new then
  return {-3, now}
end
local session = string.sub(new, 1, SESSION_LENGTH)
local before = queue and (is_marked or not is_holder) and redis.call('HMGET', heartbeats, session, 'from', 'from2') or {} -- types are checked before the first write
if queue and (certain ~= '1' or not in_time) then
  redis.call('ZREM', queue, old)
end

if is_holder then
  if #used ~= STAMP_LENGTH or string.find(used, '%D') then
    floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1))
  elseif used > floor then
    floor = used
  end
  if in_time and not is_marked then
    local stamp, tail_of_hold = now, ms > NOTED_LIFE_MS and label .. '\n' .. string.format('%.0f', ms) or label -- see lock/longest
    if now <= floor then
      stamp = string.format('%016.0f', tonumber(floor) + 1)
    end
    if not redis.pcall('SET', holder, 'sb1l' .. stamp .. new .. '-' .. tail_of_hold, 'PX', ms)['err'] then
      return {1, stamp, now, old_gone, had}
    end
  end
  if not is_marked or not queue then
    -- include lock/free
    set_free(floor, is_marked)
    return {4, now, old_gone, had}
  end
  hold = ''
end

-- include lock/time-left
if hold == new then
  -- include lock/lengthen
  lengthen(ms)
  return {1, floor, now, old_gone, had}
end
if hold ~= '' and left_us == 0 then
  floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1)) -- it ended by itself: its whole block may be in use
end

local is_queued = false
if is_marked and in_time then
  local tail, score = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES'), now
  if tail[1] and tonumber(tail[2]) >= tonumber(now) then
    score = string.format('%.0f', tail[2] + 1) -- the clock was set back: the last comes last all the same
  end
  is_queued = type(redis.pcall('ZADD', queue, 'NX', score, new)) ~= 'table'
  if not is_queued or not tail[1] and type(redis.pcall('PEXPIRE', queue, QUEUE_TTL_MS)) == 'table' then
    redis.call('ZREM', queue, new) -- it is refused: old is ended all the same
    is_queued = false
  end
elseif redis.call('ZSCORE', queue, new) then -- of an earlier copy of this call
  is_queued = true
  redis.call('PEXPIRE', queue, QUEUE_TTL_MS) -- takes no memory: what follows is then not refused for that
end
if not is_queued then
  if not is_marked or left_us > 0 then
    return {4, now, old_gone, had}
  end
  session = '' -- the reply has no room for a grant: every session gets a message
end

-- include queue/alive

-- The heartbeat is left out while an earlier one, whose number heartbeats has, still gives the
-- session seven eighths of a life. The functions of a heartbeat and of a search are made by the
-- calls alone that need them.
if is_queued and not (is_alive(before[1], now) and tonumber(string.sub(before[1], 1, LIFE_END)) - tonumber(now) >= heartbeat_us * 7 / 8) then
  -- include queue/listening
  -- include queue/heartbeat
  heartbeat(before, listening())
end
if is_queued and (left_us > 0 or not is_marked) then
  -- Old was lost before. If the mark was lost with the key, a poll marks it again, and sends this.
  if is_marked and string.sub(hold, 1, SESSION_LENGTH) ~= session then
    -- include lock/recall
    recall('[RF]')
  end
  return {0, left_us, left_us > 0 and 0 or 1, now, '', old_gone, had}
end

-- include queue/listeners
-- include lock/grant
-- include lock/recent

local chosen, stamp, paid, grants = '', nil, nil, ''
if is_queued and is_holder then -- mostly the first in the queue is alive, and no search is needed
  local head = redis.call('ZPOPMIN', queue)
  chosen = head[1]
  if #chosen == TICKET_LENGTH then -- another is of another kind of lock, and is dropped
    local owner = string.sub(chosen, 1, SESSION_LENGTH)
    local life, done = redis.call('HGET', heartbeats, owner), nil
    local is_ready = is_alive(life, now) and is_recent(chosen, owner, life) and is_listening(owner, life)
    if is_ready then
      done, stamp, left_us = pcall(grant, chosen, life, floor)
    end
    if done then
      if chosen == new then
        raise(holder, left_us, ms)
        return {1, stamp, now, old_gone, had}
      elseif string.sub(chosen, 1, SESSION_LENGTH) == session then
        grants = string.sub(chosen, SESSION_LENGTH + 1, ID_LENGTH) .. stamp .. string.sub(life, LIFE_END + 1, NUMBER_END)
      end
      return {0, left_us, 0, now, grants, old_gone, had}
    end
    redis.call('ZADD', queue, head[2], chosen) -- it keeps its position
    if chosen == new then
      redis.pcall('PEXPIRE', queue, QUEUE_TTL_MS)
    end
    if is_ready then -- the grant is refused: old is ended all the same
      redis.call('DEL', holder)
      return {0, 0, 1, now, '', old_gone, had}
    end
  end
end

-- include lock/handoff

chosen, stamp, paid, left_us = hand_off(floor)
if not is_queued then
  return {4, now, old_gone, had}
elseif chosen == new then
  raise(holder, left_us, ms)
  return {1, stamp, now, old_gone, had}
elseif string.sub(chosen, 1, SESSION_LENGTH) == session then
  grants = string.sub(chosen, SESSION_LENGTH + 1, ID_LENGTH) .. stamp .. paid
end
return {0, left_us, more, now, grants, old_gone, had}
