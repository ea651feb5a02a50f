-- fair/look v1
-- A session that waits says that it lives, hands a free lock on, and learns what became of its
-- attempts.
--
-- KEYS[1]  holder  string: 'sb1', kind (1), stamp (16), hold (41), until (16), 6 dashes, label; see README.md
-- KEYS[2]  line    sorted set: hold -> ticket, the server's microseconds at its arrival
-- KEYS[3]  lives   hash: session -> life (16), number (20), label; 'from' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  session  22 characters
-- ARGV[2]  lw_us  what the heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[3]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[4]  label  what the caller is called, 0 to 64 bytes
-- ARGV[5]  verb  PUBLISH or SPUBLISH
-- ARGV[6]  channel  of grants, without the session that it ends with
-- ARGV[7]  attempts  of the session, 19 characters each, that wait: one of them that has the lock gets lw_us from now
-- returns  {1, left_us, more, attempt, stamp, paid, places, now}  attempt of the session has the lock, or '': nobody or another session, for left_us at the most
--          {-2, kind}  the name is in use by another kind of lock, or is no key of ours ('?')
--          paid is the number of the heartbeat that the hold's life counts from, or '' where that is not known; places has a 1 for each of attempts that stands in line, else a 0; more is 1 where a look is due at once
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that gets the lock, unless it sent this
-- cost     O(attempts log n): TIME, GET, HMGET, ZCARD, PEXPIRE, the heartbeat, and ZSCORE each; SET where the lock is handed on
local holder, line, lives = KEYS[1], KEYS[2], KEYS[3]
local session, lw_us, number, label, verb, channel, attempts = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

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

-- part line/beat
-- Lengthens the life of the session in this line: until when its tickets count as living. known and
-- from are what lives says of the session and of 'from'. Life and number are never made less while they
-- count, so what runs late, twice or out of order only adds.
local function beat(known, from)
  local life, paid = string.format('%016.0f', tonumber(now) + lw_us), number
  if living(known, now) then
    if string.sub(known, 1, 16) > life then
      life = string.sub(known, 1, 16)
    end
    if string.sub(known, 17, 36) > paid then
      paid = string.sub(known, 17, 36)
    end
  end
  redis.call('HSET', lives, session, life .. paid .. label)
  redis.call('PEXPIRE', lives, 600000)
  if known and from and not living(known, string.sub(from, 1, 16)) then
    -- Tickets of its own may stand among those that were passed over. Of one that is not known none do.
    redis.call('HDEL', lives, 'from')
  end
  if not known and redis.call('HLEN', lives) > 64 then
    -- Sessions that went for good leave their field behind. Each that comes clears away some.
    for _, field in ipairs(redis.call('HRANDFIELD', lives, 16)) do
      local other = field ~= 'from' and redis.call('HGET', lives, field)
      if other and tonumber(string.sub(other, 1, 16)) + 60000000 < tonumber(now) then
        redis.call('HDEL', lives, field)
      end
    end
  end
end
-- end line/beat

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
if other then
  return {-2, other}
end
local said, waiting = redis.call('HMGET', lives, session, 'from'), redis.call('ZCARD', line)

-- Before the heartbeat, since it takes no memory: what follows is then not refused where that is full.
redis.call('PEXPIRE', line, 600000)
beat(said[1], said[2])

-- What stands in line is looked at first: a ticket that is granted by this very look stood there.
local places, asked = '', {}
for at = 1, #attempts, 19 do
  local attempt = session .. string.sub(attempts, at, at + 18)
  places = places .. (redis.call('ZSCORE', line, attempt) and '1' or '0')
  asked[attempt] = true
end

local paid = ''
local mine = asked[held]
if not mine and till <= now then
  held, till = '', ''
  if waiting > 0 then
    held, floor, paid = hand_off(floor)
    mine = asked[held]
  end
end
if mine then
  -- It waits for the answer to this call: it has the lock for lw_us from now, also where its grant
  -- ran out unread, since nobody was let in meanwhile.
  local ends = string.format('%016.0f', tonumber(now) + lw_us)
  if till > ends then
    ends = till
  end
  hold_until(held, floor, ends, label)
  till, paid = ends, number
end
local left = 0
if till > now then
  left = tonumber(till) - tonumber(now)
end
if string.sub(held, 1, 22) ~= session then
  return {1, left, more, '', '', '', places, now}
end
return {1, left, more, string.sub(held, 23), floor, paid, places, now}
