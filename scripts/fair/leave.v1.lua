-- fair/leave v1
-- Ends a hold: gives the lock to the next in line if the hold has it, else takes its ticket out
-- of the line. Any number of times.
--
-- KEYS[1]  holder  string: 'sb1', kind (1), stamp (16), hold (41), until (16), 6 dashes, label; see README.md
-- KEYS[2]  line    sorted set: hold -> ticket, the server's microseconds at its arrival
-- KEYS[3]  lives   hash: session -> life (16), number (20), label; 'from' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  hold  41 characters
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the floor of a lock that nobody holds is kept
-- returns  {0, now}  this hold has nothing here; now is the server's time, a stamp
--          {1, now, grants, more}  it had the lock; grants is '', or where an attempt of the session has it now that attempt (19), stamp (16) and number (20); more is 1 where a look is due at once
--          {2, now}  it stood in line
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that gets the lock, unless it sent this: the reply tells it
-- cost     O(log n) in the tickets: TIME, GET, ZRANGE, HGET, ZREM, SET and the message; nobody waits: TIME, GET, ZRANGE twice, DEL, EXISTS, SET;
--          the dead at the head cost more
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local hold, session, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part fair/holder
-- What the holder key says: the stamp of the hold or the floor that it left, the hold, and until when. other is
-- the kind of another lock, or '?' where the key is none of ours. The floor of a key that is lost is the lowest stamp:
-- whatever is written with it can be read again.
local value = redis.pcall('GET', holder)
local kind = type(value) == 'string' and string.sub(value, 1, 4)
local floor, held, till, other = string.rep('0', 16), '', ''
if kind == 'sb1f' and #value >= 83 and #value <= 147 then
  floor, held, till = string.sub(value, 5, 20), string.sub(value, 21, 61), string.sub(value, 62, 77)
elseif kind == 'sb1-' and #value == 20 then
  floor = string.sub(value, 5, 20)
elseif kind then
  other = '?'
  if string.sub(kind, 1, 3) == 'sb1' and kind ~= 'sb1f' and kind ~= 'sb1-' then
    other = string.sub(kind, 4)
  end
elseif value then
  -- A lock that several may have is a sorted set: see rwlock/enter v1.
  if type(redis.pcall('ZSCORE', holder, 'sb1w')) ~= 'string' then
    redis.call('GET', holder) -- refused: so is this, and all
  end
  other = 'w'
end
-- end fair/holder
if held ~= hold then
  if redis.call('ZREM', line, hold) == 1 then
    return {2, now}
  end
  return {0, now}
end

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

-- part fair/grant
-- Writes down who has the lock, and until when. The key outlives the hold by 15 seconds, more than
-- there is between two looks of any waiter: another kind of lock is kept out while somebody queues.
local function hold_until(hold, stamp, till, who)
  local ms = math.floor((tonumber(till) - tonumber(now)) / 1000) + 15000
  redis.call('SET', holder, 'sb1f' .. stamp .. hold .. till .. '------' .. who, 'PX', ms)
end

-- The stamp of the next token: later than floor, the last one used, also where the clock was set back.
local function after(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Gives the lock, which is free, to a hold that was the first in line: for the rest of its session's life, and the
-- message says which heartbeat paid for it; at least for a second, so that no place is lost for a few milliseconds.
local function grant(hold, life, floor)
  local stamp, owner, till = after(floor), string.sub(hold, 1, 22), string.sub(life, 1, 16)
  if tonumber(till) - tonumber(now) < 1000000 then
    till = string.format('%016.0f', tonumber(now) + 1000000)
  end
  hold_until(hold, stamp, till, string.sub(life, 37))
  if owner ~= session then -- who sent this is told by the reply
    redis.pcall(verb, channel .. owner, string.sub(hold, 23) .. stamp .. string.sub(life, 17, 36))
  end
  return stamp
end
-- end fair/grant

-- Mostly the first in line lives, and no search is needed; its functions come after that, since each call makes them
-- anew.
local chosen = redis.call('ZRANGE', line, 0, 0)[1] or ''
local life = chosen ~= '' and redis.call('HGET', lives, string.sub(chosen, 1, 22))
if living(life, now) then
  redis.call('ZREM', line, chosen)
  local stamp = grant(chosen, life, floor)
  if string.sub(chosen, 1, 22) == session then
    return {1, now, string.sub(chosen, 23) .. stamp .. string.sub(life, 17, 36), 0}
  end
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

-- part fair/handoff
-- Gives the lock, which is free, to the first in line that lives. Where nobody lives it is free.
local function hand_off(floor)
  local hold, life = search(line, 'from')()
  if not hold then
    redis.call('DEL', holder)
    if more == 0 and redis.call('EXISTS', line) == 0 then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
    else
      redis.pcall('SET', holder, 'sb1f' .. floor .. string.rep('-', 41) .. string.rep('0', 16) .. '------', 'PX', 15000)
    end
    return ''
  end
  redis.call('ZREM', line, hold)
  return hold, grant(hold, life, floor), string.sub(life, 17, 36)
end
-- end fair/handoff

local stamp, number
chosen, stamp, number = hand_off(floor)
if string.sub(chosen, 1, 22) == session then
  return {1, now, string.sub(chosen, 23) .. stamp .. number, more}
end
return {1, now, '', more}
