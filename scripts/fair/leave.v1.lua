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
-- returns  {0, now}  this hold has nothing here; now is the server's time, a stamp
--          {1, now, next, stamp, number, more}  it had the lock, and next has it now, or '' nobody; more is 1 where a look is due at once
--          {2, now}  it stood in line
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that gets the lock, unless it sent this: the reply tells it
-- cost     O(log n) in the tickets: TIME, GET, ZRANGE, HGET, ZREM, SET and the message; the dead at the head cost more
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local hold, session, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

-- part line/next
-- Finds the first ticket whose session lives, and what is said of that session. Dead ones are passed
-- over; they lose their place only when they were dead for ten seconds, so that a session which was
-- cut off for a while comes back to it. 'from' remembers the last of those that were passed over, and
-- when: ever so many are passed over once, unless one of them comes back. more says that the search is
-- not done.
local more = 0
local function next_living()
  local head = redis.call('ZRANGE', line, 0, 0)[1]
  if not head then
    return nil
  end
  local life = redis.call('HGET', lives, string.sub(head, 1, 22))
  if living(life, now) then
    return head, life
  end

  local known = {} -- what is said of a session, or false
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
  local function remove(tickets)
    if #tickets > 0 then
      redis.call('ZREM', line, unpack(tickets))
    end
  end

  local gone = {}
  for _, ticket in ipairs(redis.call('ZRANGE', line, 0, 255)) do
    if not is_gone(life_of(ticket)) then
      break
    end
    gone[#gone + 1] = ticket
  end
  remove(gone)

  local from = redis.call('HGET', lives, 'from')
  local rank = from and string.sub(from, 1, 16) <= now and redis.call('ZRANK', line, string.sub(from, 17))
  rank = rank and rank + 1 or 0
  local passed, found
  for _ = 1, 8 do
    local page = redis.call('ZRANGE', line, rank, rank + 127)
    gone = {}
    for _, ticket in ipairs(page) do
      life = life_of(ticket)
      if living(life, now) then
        found = ticket
        break
      elseif is_gone(life) then
        gone[#gone + 1] = ticket
      else
        passed = ticket
      end
    end
    remove(gone)
    rank = rank + #page - #gone
    more = not found and #page == 128 and 1 or 0
    if more == 0 then
      break
    end
  end
  if passed then
    -- Not worth a refusal, where memory is full: it spares the next search, no more.
    redis.pcall('HSET', lives, 'from', now .. passed)
    redis.call('PEXPIRE', lives, 600000)
  end
  return found, life
end
-- end line/next

-- part fair/grant
-- Writes down who has the lock, and until when. The key outlives the hold by 15 seconds, more than
-- there is between two looks of any waiter: another kind of lock is kept out while somebody queues.
local function hold_until(hold, stamp, till, who)
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / 1000 + 15000)
  redis.call('SET', holder, 'sb1f' .. stamp .. hold .. till .. '------' .. who, 'PX', ms)
end

-- The stamp of the next token: later than floor, the last one used, also where the clock was set back.
local function after(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Gives the lock, which is free, to the first in line that lives. The hold gets the rest of its
-- session's life, and the message says which heartbeat paid for it; at least a second, so that no place
-- is lost for a few milliseconds. Where nobody lives it is free.
local function hand_off(floor)
  local hold, life = next_living()
  if not hold then
    redis.call('DEL', holder)
    if more == 0 and redis.call('EXISTS', line) == 0 then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', 3600000)
    else
      redis.pcall('SET', holder, 'sb1f' .. floor .. string.rep('-', 41) .. string.rep('0', 16) .. '------', 'PX', 15000)
    end
    return ''
  end
  local stamp, owner = after(floor), string.sub(hold, 1, 22)
  local till = string.format('%016.0f', tonumber(now) + 1000000)
  if string.sub(life, 1, 16) > till then
    till = string.sub(life, 1, 16)
  end
  redis.call('ZREM', line, hold)
  hold_until(hold, stamp, till, string.sub(life, 37))
  if owner ~= session then -- who sent this is told by the reply
    redis.pcall(verb, channel .. owner, string.sub(hold, 23) .. stamp .. string.sub(life, 17, 36))
  end
  return hold, stamp, string.sub(life, 17, 36)
end
-- end fair/grant

-- part fair/holder
-- What the holder key says: the stamp of the hold or the floor that it left, the hold, and until when. other is
-- the kind of another lock, or '?' where the key is none of ours.
local value = redis.call('GET', holder)
local kind = value and string.sub(value, 1, 4)
local floor, held, till, other = '', '', ''
if kind == 'sb1f' and #value >= 83 and #value <= 147 then
  floor, held, till = string.sub(value, 5, 20), string.sub(value, 21, 61), string.sub(value, 62, 77)
elseif kind == 'sb1-' and #value == 20 then
  floor = string.sub(value, 5, 20)
elseif kind then
  other = '?'
  if string.sub(kind, 1, 3) == 'sb1' and kind ~= 'sb1f' and kind ~= 'sb1-' then
    other = string.sub(kind, 4)
  end
end
-- end fair/holder
if held == hold then
  local chosen, stamp, number = hand_off(floor)
  return {1, now, chosen, stamp or '', number or '', more}
end
if redis.call('ZREM', line, hold) == 1 then
  return {2, now}
end
return {0, now}
