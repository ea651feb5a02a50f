-- lock/requeue v1
-- Ends one attempt, and queues another of its session behind all others. The first is ended in any
-- case, the second gets a ticket only in time and if a queue may exist; if none can, it holds at
-- once.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  line    sorted set: ticket -> the server's microseconds at its arrival; missing, as
--          lives is, while a slot moves
-- KEYS[3]  lives   hash: session -> life (16), number (20), ear (1), label; 'from' -> when (16),
--          and the last ticket that was passed over then
-- ARGV[1]  old  ticket that is ended: id (41) and mode (1)
-- ARGV[2]  new  ticket that queues: fresh
-- ARGV[3]  life_us  how long its hold lasts if it is granted the lock at once
-- ARGV[4]  not_after  stamp; executed later, no ticket is made
-- ARGV[5]  lw_us  what the heartbeat in this call gives the session, 30 seconds at the most; it is
--          not written if its life has 7/8 of that left
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[7]  label  of the caller, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the floor of a free lock is kept
-- ARGV[11]  used  stamp of the last token of old that was used; '' if it is not known: the last of
--          the block then
-- ARGV[12]  sure  1 if old has no ticket for certain, else 0
-- returns  {1, stamp, now, looked, had}  new holds, for life_us from now; the tokens of stamp to
--          stamp + 255 are the hold's
--          {0, left_us, more, now, grants, looked, had}  new queues; another hold lasts left_us at
--            the most; grants is '', or if another attempt of the session holds now that attempt
--            (19), stamp (16) and number (20); more is 1 if a poll is due at once
--          {4, now, looked, had}  old is ended, and new has no ticket
--          {-2, kind}  the name is in use by another kind of lock, or is no lock's key ('?')
--          {-3, now}  only the holder key was sent, and old did not hold: nothing is decided
--          looked is 1 if old has nothing left for certain, and had is 1 if it held
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that
--          is granted the lock, unless the reply says it
-- cost     O(log n) in the tickets: TIME, GET, SET if no queue can exist; else TIME, GET, HMGET,
--          ZRANGE, ZADD, ZPOPMIN, HGET, SET and the message; PUBSUB and HSET too if the
--          session's life has to be lengthened, and ZREM if it is not sure; the dead at the head
--          cost more
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local old, new, life_us, not_after, lw_us, number, label, verb, channel, keep_ms, used, sure = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
assert(string.find(life_us .. ' ' .. lw_us .. ' ' .. keep_ms, '^[1-9]%d* [1-9]%d* %d+$') and life_us + lw_us + keep_ms < 1e15 and #new == 42 and #number == 20 and #label <= 64, 'bad argument')

-- include queue/now
-- include lock/holder
if other then
  return {-2, other}
end

local has, in_time, ms = hold == old, now <= not_after, math.ceil(life_us / 1000)
local looked, had = (line or sure == '1') and 1 or 0, has and 1 or 0
if not line and not has and hold ~= new then
  return {-3, now}
end
local session = string.sub(new, 1, 22)
local before = line and (marked or not has) and redis.call('HMGET', lives, session, 'from', 'from2') or {} -- types are looked at before the first write
if line and (sure ~= '1' or not in_time) then
  redis.call('ZREM', line, old)
end

if has then
  if #used ~= 16 or string.find(used, '%D') then
    floor = string.format('%016.0f', tonumber(floor) + 255)
  elseif used > floor then
    floor = used
  end
  if in_time and not marked then
    local stamp = now
    if now <= floor then
      stamp = string.format('%016.0f', tonumber(floor) + 1)
    end
    if not redis.pcall('SET', holder, 'sb1l' .. stamp .. new .. '-' .. label, 'PX', ms)['err'] then
      return {1, stamp, now, looked, had}
    end
  end
  if not marked or not line then
    -- include lock/free
    set_free(floor, marked)
    return {4, now, looked, had}
  end
  hold = ''
end

-- include lock/left
if hold == new then
  -- include lock/lengthen
  lengthen(ms)
  return {1, floor, now, looked, had}
end
if hold ~= '' and left == 0 then
  floor = string.format('%016.0f', tonumber(floor) + 255) -- it ended by itself: its whole block may be in use
end

local queued = false
if marked and in_time then
  local tail, score = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES'), now
  if tail[1] and tonumber(tail[2]) >= tonumber(now) then
    score = string.format('%.0f', tail[2] + 1) -- the clock was set back: the last comes last all the same
  end
  queued = type(redis.pcall('ZADD', line, 'NX', score, new)) ~= 'table'
  if not queued or not tail[1] and type(redis.pcall('PEXPIRE', line, 600000)) == 'table' then
    redis.call('ZREM', line, new) -- it is refused: old is ended all the same
    queued = false
  end
elseif redis.call('ZSCORE', line, new) then -- of an earlier copy of this call
  queued = true
  redis.call('PEXPIRE', line, 600000) -- takes no memory: what follows is then not refused for that
end
if not queued then
  if not marked or left > 0 then
    return {4, now, looked, had}
  end
  session = '' -- the reply has no room for a grant: every session gets a message
end

-- include queue/living

-- The heartbeat is left out while an earlier one, whose number lives has, still gives the session
-- seven eighths of a life. The functions of a heartbeat and of a search are made by the calls alone
-- that need them.
if queued and not (living(before[1], now) and tonumber(string.sub(before[1], 1, 16)) - tonumber(now) >= lw_us * 7 / 8) then
  -- include queue/ear
  -- include queue/beat
  beat(before, ear())
end
if queued and (left > 0 or not marked) then
  -- If the mark was lost with the key, a poll marks it again.
  return {0, left, left > 0 and 0 or 1, now, '', looked, had}
end

-- include queue/heard
-- include lock/grant
-- include lock/ready

local chosen, stamp, paid, grants = '', nil, nil, ''
if queued and has then -- mostly the first in the queue lives, and no search is needed
  local head = redis.call('ZPOPMIN', line)
  chosen = head[1]
  if #chosen == 42 then -- another is of another kind of lock, and is dropped
    local owner = string.sub(chosen, 1, 22)
    local life, done = redis.call('HGET', lives, owner), nil
    local lived = living(life, now) and is_lively(chosen, owner, life) and is_heard(owner, life)
    if lived then
      done, stamp, left = pcall(grant, chosen, life, floor)
    end
    if done then
      if chosen == new then
        if left < ms * 1000 then
          redis.call('PEXPIRE', holder, ms + 15000)
        end
        return {1, stamp, now, looked, had}
      elseif string.sub(chosen, 1, 22) == session then
        grants = string.sub(chosen, 23, 41) .. stamp .. string.sub(life, 17, 36)
      end
      return {0, left, 0, now, grants, looked, had}
    end
    redis.call('ZADD', line, head[2], chosen) -- it keeps its place
    if chosen == new then
      redis.pcall('PEXPIRE', line, 600000)
    end
    if lived then -- the grant is refused: old is ended all the same
      redis.call('DEL', holder)
      return {0, 0, 1, now, '', looked, had}
    end
  end
end

-- include lock/handoff

chosen, stamp, paid, left = hand_off(floor)
if not queued then
  return {4, now, looked, had}
elseif chosen == new then
  if left < ms * 1000 then
    redis.call('PEXPIRE', holder, ms + 15000)
  end
  return {1, stamp, now, looked, had}
elseif string.sub(chosen, 1, 22) == session then
  grants = string.sub(chosen, 23, 41) .. stamp .. paid
end
return {0, left, more, now, grants, looked, had}
