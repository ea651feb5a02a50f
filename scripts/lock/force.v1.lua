-- lock/force v1
-- Takes a lock from a hold of another session, and gives it to the next in the queue. Sent again it
-- finds the hold gone.
--
-- KEYS[1]  holder  string: see lock/enter v1
-- KEYS[2]  line    sorted set: see lock/enter v1; missing, as lives is, while a slot moves
-- KEYS[3]  lives   hash: see lock/enter v1
-- ARGV[1]  hold  41 characters: what holds, as far as the sender knows
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  of grants, without the session that it ends with
-- ARGV[4]  told  the channel of the hold's session
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- returns  0  this hold has the lock no more
--          1  taken; the next in the queue and the hold's session were told
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that is granted the lock, and KEYS[1] to told
-- cost     as lock/leave v1, and a message
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local hold, verb, channel, told, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local session = '' -- no session is told by the reply

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

if held == '' or string.sub(held, 1, 41) ~= hold then
  return 0
end
floor = string.format('%016.0f', tonumber(floor) + 255) -- its whole block may be in use

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

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

if line and marked then
  -- It waits no more. ZREM takes no memory either, and what follows it is not refused for that.
  redis.call('ZREM', line, held)
  hand_off(floor)
else
  set_free(floor, marked)
end
-- By the bus: whatever node the hold's session listens at.
redis.pcall('PUBLISH', told, holder)
return 1
