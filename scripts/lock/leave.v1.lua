-- lock/leave v1
-- Ends an attempt: its hold, which goes to the next in the queue, and its ticket. Any number of
-- times.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), hold (41), mode (1), mark (1), label; see README.md
-- KEYS[2]  line    sorted set: ticket -> the server's microseconds at its arrival; missing, as lives is, while a slot moves
-- KEYS[3]  lives   hash: session -> life (16), number (20), label; 'from' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  ticket  hold (41) and mode (1)
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- ARGV[6]  used  stamp of the last token that was used; '' if it is not known: the last of the block then
-- ARGV[7]  sure  1 if the attempt has no ticket for certain, else 0
-- returns  {0, now}  the attempt has nothing here
--          {1}  it held, and is sure; no queue can exist
--          {1, now, grants, more}  it held; grants is '', or if an attempt of the session holds now that attempt (19), stamp (16) and number (20); more is 1 if a poll is due at once
--          {2, now}  it had a ticket
--          {3, now}  only the holder key was sent: it held, and may have a ticket
--          {-3, now}  only the holder key was sent: it did not hold, and may have a ticket
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that is granted the lock, unless the reply says it
-- cost     O(log n) in the tickets: GET, SET if it is sure and no queue can exist; TIME, GET, ZPOPMIN, HGET, SET and the message if one can;
--          ZREM too if it is not sure; the dead at the head cost more
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local ticket, session, verb, channel, keep_ms, used, sure = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

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

local has, last = held == ticket, used
if has then
  if last == '' then
    last = string.format('%016.0f', tonumber(floor) + 255)
  elseif last < floor then
    last = floor
  end
  if sure == '1' and not marked then
    if redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)['err'] then
      -- DEL takes no memory, and makes the server accept what follows.
      redis.call('DEL', holder)
      redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)
    end
    return {1}
  end
end

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

local had = line and (sure ~= '1' or not has) and redis.call('ZREM', line, ticket) == 1
if has and (not line or not marked) then
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
  set_free(last, marked)
  if line or sure == '1' then
    return {1, now, '', 0}
  end
  return {3, now}
elseif not line and sure == '1' then
  return {0, now}
elseif not line then
  return {-3, now}
elseif not has then
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
  if not marked or left > 0 then
    if had then
      return {2, now}
    end
    return {0, now}
  end
  if held ~= '' then
    floor = string.format('%016.0f', tonumber(floor) + 255) -- it ended by itself: its whole block may be in use
  end
  last, session = floor, '' -- the reply has no room for a grant: every session is told by a message
end

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

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

-- Mostly the first in the queue lives, and no search is needed; its functions come after that, since each call makes
-- them anew.
local head, grants = has and redis.call('ZPOPMIN', line) or {}, ''
local chosen, life = head[1] or '', false
if #chosen == 42 then -- another is of another kind of lock, and is dropped
  local refused = false
  life = redis.pcall('HGET', lives, string.sub(chosen, 1, 22))
  if type(life) == 'string' and living(life, now) then
    local done, stamp = pcall(grant, chosen, life, last)
    if done and string.sub(chosen, 1, 22) == session then
      grants = string.sub(chosen, 23, 41) .. stamp .. string.sub(life, 17, 36)
    end
    if done then
      return {1, now, grants, 0}
    end
    refused = true
  end
  redis.call('ZADD', line, head[2], chosen) -- it keeps its place
  if type(redis.pcall('PEXPIRE', line, 600000)) == 'table' then
    redis.call('ZREM', line, chosen) -- a sender without the right to that leaves no key without an end
  end
  if refused then
    redis.call('DEL', holder)
    return {1, now, '', 1}
  elseif type(life) == 'table' then
    redis.call('HGET', lives, string.sub(chosen, 1, 22)) -- refused: so is this, and all
  end
end

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
if has and chosen == '' then
  set_free(last, false)
  return {1, now, '', 0}
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

local stamp, paid
chosen, stamp, paid = hand_off(last)
if has then
  if string.sub(chosen, 1, 22) == session then
    grants = string.sub(chosen, 23, 41) .. stamp .. paid
  end
  return {1, now, grants, more}
elseif had then
  return {2, now}
end
return {0, now}
