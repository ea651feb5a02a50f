-- lock/requeue v1
-- Ends one attempt, and queues another of its session behind all others. The first is ended in any
-- case, the second gets a ticket only in time and if a queue may exist; if none can, it holds at once.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), hold (41), mode (1), mark (1), label; see README.md
-- KEYS[2]  line    sorted set: ticket -> the server's microseconds at its arrival; missing, as lives is, while a slot moves
-- KEYS[3]  lives   hash: session -> life (16), number (20), label; 'from' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  old  ticket that is ended: hold (41) and mode (1)
-- ARGV[2]  new  ticket that queues: fresh
-- ARGV[3]  life_us  how long its hold lasts if it is granted the lock at once
-- ARGV[4]  not_after  stamp; executed later, no ticket is made
-- ARGV[5]  lw_us  what the heartbeat in this call gives the session, 30 seconds at the most; it is not written if its life has 7/8 of that left
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[7]  label  of the caller, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the floor of a free lock is kept
-- ARGV[11]  used  stamp of the last token of old that was used; '' if it is not known: the last of the block then
-- ARGV[12]  sure  1 if old has no ticket for certain, else 0
-- returns  {1, stamp, now, looked, had}  new holds, for life_us from now; the tokens of stamp to stamp + 255 are the hold's
--          {0, left_us, more, now, grants, looked, had}  new queues; another hold lasts left_us at the most; grants is '', or if another attempt of the session holds now that attempt (19), stamp (16) and number (20); more is 1 if a poll is due at once
--          {-1, now, looked, had}  old is ended, and new has no ticket
--          {-2, kind}  the name is in use by another kind of lock, or is no lock's key ('?')
--          {-3, now}  only the holder key was sent, and old did not hold: nothing is decided
--          looked is 1 if old has nothing left for certain, and had is 1 if it held
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that is granted the lock, unless the reply says it
-- cost     O(log n) in the tickets: TIME, GET, SET if no queue can exist; else TIME, GET, HGET, ZRANGE, ZADD, ZPOPMIN, HGET, SET and the message;
--          HSET, PEXPIRE and HMGET too if the session's life has to be lengthened, and ZREM if it is not sure; the dead at the head cost more
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local old, new, life_us, not_after, lw_us, number, label, verb, channel, keep_ms, used, sure = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part lock/holder
-- What the holder key says: the stamp of the hold, or the floor if there is no hold; the ticket that holds, and whether
-- a queue may exist. other is the kind of another lock, or '?' if the key is no lock's. The floor of a key that was lost
-- is the lowest stamp.
local value = redis.pcall('GET', holder)
local floor, held, marked, other = '0000000000000000', '', false, nil
if type(value) == 'string' then
  local kind = string.sub(value, 1, 4)
  if kind == 'sb1l' and #value >= 63 and #value <= 127 then
    floor, held, marked = string.sub(value, 5, 20), string.sub(value, 21, 62), string.sub(value, 63, 63) == 'q'
    if string.sub(held, 42) == '-' then
      held = ''
    end
  elseif kind == 'sb1-' and #value == 20 then
    floor = string.sub(value, 5, 20)
  else
    other = '?'
    if string.sub(kind, 1, 3) == 'sb1' and #kind == 4 and kind ~= 'sb1l' and kind ~= 'sb1-' then
      other = string.sub(kind, 4)
    end
  end
elseif value then
  -- A lock that several may hold is a sorted set: see rwlock/enter v1.
  if type(redis.pcall('ZSCORE', holder, 'sb1w')) ~= 'string' then
    redis.call('GET', holder) -- refused: so is this, and all
  end
  other = 'w'
end
-- end lock/holder
if other then
  return {-2, other}
end

local has, in_time, ms = held == old, now <= not_after, math.ceil(life_us / 1000)
local looked, had = (line or sure == '1') and 1 or 0, has and 1 or 0
if not line and not has and held ~= new then
  return {-3, now}
end
local session = string.sub(new, 1, 22)
local known_before = line and (marked or not has) and redis.call('HGET', lives, session) -- types are looked at before the first write
if line and (sure ~= '1' or not in_time) then
  redis.call('ZREM', line, old)
end

if has then
  if used == '' then
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
-- part lock/free
-- Leaves the lock free, with the floor of its tokens. The mark stays if a queue may exist. If memory is full the DEL,
-- which takes none, makes the server accept what follows.
local function set_free(floor, stays)
  local said, ms = 'sb1-' .. floor, keep_ms
  if stays then
    said, ms = 'sb1l' .. floor .. string.rep('-', 42) .. 'q', 600000
  end
  if redis.pcall('SET', holder, said, 'PX', ms)['err'] then
    redis.call('DEL', holder)
    redis.pcall('SET', holder, said, 'PX', ms)
  end
end
-- end lock/free
    set_free(floor, marked)
    return {-1, now, looked, had}
  end
  held = ''
end

-- part lock/left
-- For how long the hold lasts, in microseconds: for the life of its key, which is 15 seconds longer if it is marked. Only a
-- marked key can outlive its hold. A key whose end was taken away has a hold without an end.
local ttl, left = 0, 0
if held ~= '' then
  ttl = redis.call('PTTL', holder)
  if ttl < 0 then
    left = 15000000
  elseif marked then
    left = math.max(ttl - 15000, 0) * 1000
  else
    left = math.max(ttl, 1) * 1000
  end
end
-- end lock/left
if held == new then
-- part lock/lengthen
-- Lengthens the hold of the holder key to ms from now. It is never made shorter. Returns how long it lasts.
local function lengthen(ms)
  local ends = marked and ms + 15000 or ms
  if ttl >= 0 and ttl < ends then
    redis.call('PEXPIRE', holder, ends)
    ttl = ends
  end
  return math.max(left, ms * 1000)
end
-- end lock/lengthen
  lengthen(ms)
  return {1, floor, now, looked, had}
end
if held ~= '' and left == 0 then
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
    return {-1, now, looked, had}
  end
  session = '' -- the reply has no room for a grant: every session is told by a message
end

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

-- The heartbeat is left out while an earlier one, whose number lives has, still gives the session seven eighths of a
-- life. The functions of a heartbeat and of a search are made by the calls alone that need them.
if queued and not (living(known_before, now) and tonumber(string.sub(known_before, 1, 16)) - tonumber(now) >= lw_us * 7 / 8) then
-- part line/beat
-- Lengthens the life of the session in this line: until when its tickets count as living. known is what
-- lives says of the session. Life and number are never made less while they count, so what runs late, twice
-- or out of order only adds.
local function beat(known)
  local life, paid = string.format('%016.0f', tonumber(now) + lw_us), number
  local lived = living(known, now)
  if lived then
    if string.sub(known, 1, 16) > life then
      life = string.sub(known, 1, 16)
    end
    if string.sub(known, 17, 36) > paid then
      paid = string.sub(known, 17, 36)
    end
  end
  redis.call('HSET', lives, session, life .. paid .. label)
  if type(redis.pcall('PEXPIRE', lives, 600000)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('HDEL', lives, session)
    redis.call('PEXPIRE', lives, 600000)
  end
  -- Tickets of its own may stand among those that were passed over: it was dead, or lives by a clock that was
  -- set back behind the search. Of one that is not known none do.
  local back = known and not lived
  for _, from in ipairs(lived and redis.call('HMGET', lives, 'from', 'from2') or {}) do
    back = back or from and string.sub(from, 1, 16) > now
  end
  if not known and redis.call('HLEN', lives) > 64 then
    -- Sessions that went for good leave their field behind. Each that comes clears away some.
    for _, field in ipairs(redis.call('HRANDFIELD', lives, 16)) do
      local other = #field == 22 and redis.call('HGET', lives, field)
      if other and tonumber(string.sub(other, 1, 16)) + 60000000 < tonumber(now) then
        redis.call('HDEL', lives, field)
        back = true -- or whoever is forgotten here, and comes, would not be found where it stands
      end
    end
  end
  if back then
    redis.call('HDEL', lives, 'from', 'from2')
  end
end
-- end line/beat
  beat(known_before)
end
if queued and (left > 0 or not marked) then
  -- If the mark was lost with the key, a poll marks it again.
  return {0, left, left > 0 and 0 or 1, now, '', looked, had}
end

-- part lock/grant
-- The stamp of the next hold: behind floor, also if the clock was set back.
local function after(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Gives the lock, which is free, to a ticket whose session lives: for the rest of that life, and for a second at least.
-- The message names the heartbeat that paid for it. Returns the stamp, and how long the hold lasts.
local function grant(ticket, life, floor)
  local stamp, owner = after(floor), string.sub(ticket, 1, 22)
  local ms = math.max(math.ceil((tonumber(string.sub(life, 1, 16)) - tonumber(now)) / 1000), 1000)
  redis.call('SET', holder, 'sb1l' .. stamp .. ticket .. 'q' .. string.sub(life, 37), 'PX', ms + 15000)
  if owner ~= session then -- the caller gets it in the reply
    redis.pcall(verb, channel .. owner, string.sub(ticket, 23, 41) .. stamp .. string.sub(life, 17, 36))
  end
  return stamp, ms * 1000
end
-- end lock/grant

local chosen, stamp, paid, grants = '', nil, nil, ''
if queued and has then -- mostly the first in the queue lives, and no search is needed
  local head = redis.call('ZPOPMIN', line)
  chosen = head[1]
  if #chosen == 42 then -- another is of another kind of lock, and is dropped
    local life, done = redis.call('HGET', lives, string.sub(chosen, 1, 22)), nil
    local lived = living(life, now)
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

-- part line/search
-- Answers a function that finds the next ticket of a line whose session lives, and what is said of that
-- session; whoever calls it again has taken the one before out of the line. Dead ones are passed over; they
-- lose their place only when they were dead for ten seconds, so that a session which was cut off for a while
-- comes back to it. The field memory of lives remembers the last of those that were passed over, and when:
-- ever so many are passed over once, unless one of them comes back. more says that the search is not done.
local more, known = 0, {} -- known: what is said of a session, or false
local function life_of(ticket)
  local owner = string.sub(ticket, 1, 22)
  if known[owner] == nil then
    known[owner] = redis.call('HGET', lives, owner)
  end
  return known[owner]
end
local function is_gone(said)
  return not said or tonumber(string.sub(said, 1, 16)) + 10000000 <= tonumber(now)
end
local function take_out(line, tickets)
  if #tickets > 0 then
    redis.call('ZREM', line, unpack(tickets))
  end
end
-- Where a search begins: behind those that were passed over before.
local function rank_after(line, memory, head)
  local gone = {}
  for _, ticket in ipairs(is_gone(life_of(head)) and redis.call('ZRANGE', line, 0, 255) or {}) do
    if not is_gone(life_of(ticket)) then
      break
    end
    gone[#gone + 1] = ticket
  end
  take_out(line, gone)
  local from = redis.call('HGET', lives, memory)
  local rank = from and string.sub(from, 1, 16) <= now and redis.call('ZRANK', line, string.sub(from, 17))
  return rank and rank + 1 or 0
end
local function search(line, memory)
  local rank, pages = nil, 0 -- of the page, and how many there were
  local page, at, stays = {}, 0, 0 -- how far the page is read, and how many of its tickets stay in line
  local gone, passed = {}, nil -- who is to be taken out, and the last that was passed over
  local function remember()
    take_out(line, gone)
    gone = {}
    if passed then
      -- Not worth a refusal, where memory is full: it spares the next search, no more.
      redis.pcall('HSET', lives, memory, now .. passed)
      redis.call('PEXPIRE', lives, 600000)
      passed = nil
    end
  end
  return function()
    if not rank then
      local head = redis.call('ZRANGE', line, 0, 0)[1]
      local life = head and life_of(head)
      if not head or living(life, now) then
        return head, life
      end
      rank = rank_after(line, memory, head)
    end
    while true do
      while at < #page do
        at = at + 1
        local ticket = page[at]
        local life = life_of(ticket)
        if living(life, now) then
          remember()
          return ticket, life
        elseif is_gone(life) then
          gone[#gone + 1] = ticket
        else
          passed, stays = ticket, stays + 1
        end
      end
      local last = pages > 0 and #page < 128
      if last or pages == 8 then
        remember()
        more = last and more or 1
        return nil
      end
      take_out(line, gone)
      rank = rank + stays
      page, at, stays, gone, pages = redis.call('ZRANGE', line, rank, rank + 127), 0, 0, {}, pages + 1
    end
  end
end
-- end line/search

-- part lock/free
-- Leaves the lock free, with the floor of its tokens. The mark stays if a queue may exist. If memory is full the DEL,
-- which takes none, makes the server accept what follows.
local function set_free(floor, stays)
  local said, ms = 'sb1-' .. floor, keep_ms
  if stays then
    said, ms = 'sb1l' .. floor .. string.rep('-', 42) .. 'q', 600000
  end
  if redis.pcall('SET', holder, said, 'PX', ms)['err'] then
    redis.call('DEL', holder)
    redis.pcall('SET', holder, said, 'PX', ms)
  end
end
-- end lock/free

-- part lock/handoff
-- Gives the lock, which is free, to the first ticket whose session lives. If none lives the lock stays free, and only
-- an empty queue ends the mark. A ticket of another kind of lock, which used the name before, is dropped. Returns the
-- ticket, or '', its stamp, the number of the heartbeat that paid, and how long the hold lasts.
local function hand_off(floor)
  local next_living = search(line, 'from')
  local ticket, life = next_living()
  for _ = 1, 128 do
    if not ticket or #ticket == 42 then
      break
    end
    redis.call('ZREM', line, ticket)
    ticket, life = next_living()
  end
  if ticket and #ticket ~= 42 then
    ticket, more = nil, 1
  end
  if not ticket then
    marked = more == 1 or redis.call('EXISTS', line) == 1
    set_free(floor, marked)
    return '', nil, nil, 0
  end
  local stamp, left = grant(ticket, life, floor)
  redis.call('ZREM', line, ticket)
  return ticket, stamp, string.sub(life, 17, 36), left
end
-- end lock/handoff

chosen, stamp, paid, left = hand_off(floor)
if not queued then
  return {-1, now, looked, had}
elseif chosen == new then
  if left < ms * 1000 then
    redis.call('PEXPIRE', holder, ms + 15000)
  end
  return {1, stamp, now, looked, had}
elseif string.sub(chosen, 1, 22) == session then
  grants = string.sub(chosen, 23, 41) .. stamp .. paid
end
return {0, left, more, now, grants, looked, had}
