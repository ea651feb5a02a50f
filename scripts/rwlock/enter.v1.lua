-- rwlock/enter v1
-- Takes the lock, as a reader or as a writer, if it is free for that and nobody who lives stands in line before.
-- Otherwise the caller gets a ticket at the end of the line, or, where it came to try, leaves. Sent again for the
-- same hold it keeps ticket and lock, and a writer its token; a reader's may be that of a later reader then.
--
-- KEYS[1]  holder   sorted set: hold and label -> when it ends; 'sb1w' -> the floor, below 0; 'phase'; see README.md
-- KEYS[2]  line     sorted set of the writers in line: hold -> ticket, the server's microseconds at its arrival
-- KEYS[3]  readers  sorted set of the readers in line: hold -> ticket
-- KEYS[4]  lives    hash: session -> life (16), number (20), label; 'from', 'from2' -> when (16), and the last ticket that was passed over then
-- ARGV[1]  ticket  the hold, 41 characters
-- ARGV[2]  life_us  of the hold, if it is given at once
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  queues  1 takes a ticket, 0 came to try
-- ARGV[5]  lw_us  what a heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters; '' where none is needed
-- ARGV[7]  label  what the caller is called, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the floor of a lock that nobody holds is kept
-- ARGV[11]  mode  r or w
-- ARGV[12]  again  1 if an enter of this hold was sent before, else 0
-- returns  {1, stamp, now}  it has the lock, and this is its token's stamp
--          {0, left_us, more, now}  it has not: the first of those who have it ends in left_us; more is 1 where a look is due at once
--          {-1, now}  it came after not_after
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels of their sessions
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE; free: SET, DEL, ZADD, PEXPIRE; beside others: ZADD, PEXPIRE; with the mark
--          ZCARD twice; in line: HGET, ZRANGE thrice, ZADD, PEXPIRE and the heartbeat; more where somebody is let in
local holder, line, readers, lives = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local ticket, life_us, not_after, queues, lw_us, number, label, verb, channel, keep_ms, mode, again = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
local kind, after_ms, session, caller, asker = 'sb1w', 15000, string.sub(ticket, 1, 22), ticket, ''
local own, creates = ticket .. label, true

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

-- part line/join
-- Gives a ticket at the end of the lines, of which line is the one that it stands in. Tickets rise, also where the
-- clock was set back.
local function join(line, lines, ticket)
  local number = tonumber(now)
  for _, line in ipairs(lines) do
    local tail = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    if tail and tonumber(tail) >= number then
      number = tonumber(tail) + 1
    end
  end
  redis.call('ZADD', line, 'NX', string.format('%.0f', number), ticket)
  if type(redis.pcall('PEXPIRE', line, 600000)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('ZREM', line, ticket)
    redis.call('PEXPIRE', line, 600000)
  end
end
-- end line/join

if now > not_after then
  return {-1, now}
end

-- part holds/state
-- What the key of the holds says: the scores of its members that are no holds, and of own, the hold that is asked
-- about; and the floor of the tokens. other is the kind of another lock that has the key, or '?' where it is none of ours.
-- lost says that it is missing where sessions wait, or waited in the last ten minutes.
local scores = redis.pcall('ZMSCORE', holder, kind, 'phase', 'used', 'capacity', 'kept', 'queue', own)
local floor, other, lost, has_room = ''
if scores['err'] then
  if string.sub(scores['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZMSCORE', holder, kind) -- refused: so is this, and all
  end
  -- Whoever creates reads the value by a command that is refused if memory is full. It writes nothing: there is a value.
  local value = creates and redis.pcall('SET', holder, 'sb1-0000000000000000', 'NX', 'GET')
  has_room = type(value) == 'string'
  if not has_room then
    value = redis.call('GET', holder)
  end
  if #value == 20 and string.sub(value, 1, 4) == 'sb1-' then
    floor, scores = string.sub(value, 5), {}
  else
    other = string.match(value, '^sb1([^-])') or '?'
  end
elseif scores[1] then
  floor = string.format('%016.0f', 0 - scores[1]) -- minus 0 would be a text with a minus
elseif redis.call('EXISTS', holder, lives) > 0 then
  lost = true
  if redis.call('EXISTS', holder) == 1 then
    other = '?'
  end
end
-- end holds/state
-- An enter that comes again may have a ticket that a lost key forgot.
local skips = scores[6] ~= '1' and not lost and again ~= '1'

-- part holds/give
-- Makes the key of the holds, with these scores and an end. A sender without the right to PEXPIRE leaves no key without
-- an end.
local made, released = scores[1], floor ~= ''
local function make(ms, ...)
  if released then
    -- Refused if memory is full, which nothing after a DEL is. A sender without the right to DEL leaves a floor.
    if not has_room then
      redis.call('SET', holder, 'sb1-' .. floor, 'KEEPTTL')
    end
    redis.call('DEL', holder)
  end
  redis.call('ZADD', holder, ...)
  made = true
  if type(redis.pcall('PEXPIRE', holder, ms)) == 'table' then
    redis.call('DEL', holder)
    if released then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
    end
    redis.call('PEXPIRE', holder, ms)
  end
end

-- Writes a hold down until then, with the next token: later than floor, the last one used, also where the clock was
-- set back. Further scores may follow. The key outlives all its holds by after_ms.
local function give(name, till, ...)
  if now > floor then
    floor = now
  else
    floor = string.format('%016.0f', tonumber(floor) + 1)
  end
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / 1000 + after_ms)
  if not made then
    make(ms, '-' .. floor, kind, till, name, ...)
    return
  end
  local added = redis.call('ZADD', holder, '-' .. floor, kind, till, name, ...)
  if type(redis.pcall('PEXPIRE', holder, ms, 'GT')) == 'table' then
    -- A sender without the right to that keeps what it has, and gets nothing: a hold that is new ends at once.
    if added > 0 then
      redis.call('ZADD', holder, now, name)
    end
    redis.call('PEXPIRE', holder, ms, 'GT')
  end
end

-- The mark: tickets may stand in the queue. Without it enter and a sure leave do not look there. It is written before a
-- ticket; a hand-off that finds tickets writes it if the key was lost with it, and only one that finds none removes it. The
-- scores are further ones of a key that is made.
local marked = scores[6] == '1'
local function mark(...)
  if not made then
    make(after_ms, '-' .. (released and floor or '0'), kind, 1, 'queue', ...)
  elseif not marked then
    redis.call('ZADD', holder, 1, 'queue')
  end
  marked = true
end
-- end holds/give

-- part holds/lengthen
-- Makes a hold that is there last until then, if it does not last longer. The key first: it takes no memory, and what
-- comes after it is not refused where that is full.
local function lengthen(name, till)
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / 1000 + after_ms)
  redis.call('PEXPIRE', holder, ms, 'GT')
  redis.call('ZADD', holder, 'XX', 'GT', till, name)
end
-- end holds/lengthen

-- part holds/ended
-- Holds that have ended are taken out here and nowhere else: until then they count. first is when the first of those
-- that are left ends, nil where there are none, and left_us how long that is. A thousand go at once; unended says that
-- there are more.
local first, left_us, unended
local function find_first()
  first = made and redis.call('ZRANGE', holder, '1000000000000000', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  left_us = first and math.max(0, tonumber(first) - tonumber(now)) or 0
  unended = first and left_us == 0
end
local function take_out_ended()
  find_first()
  local ended = {}
  if unended then
    ended = redis.call('ZRANGE', holder, '1000000000000000', now, 'BYSCORE', 'LIMIT', 0, 1000)
    if scores[3] then
      redis.call('ZADD', holder, 'XX', scores[3], 'used') -- a sender without the right to count takes nothing out
    end
    redis.call('ZREM', holder, unpack(ended))
    find_first()
  end
  return ended
end
-- A look is due at once where a search is not done, or holds that have ended are left.
local function is_unfinished()
  return math.max(more, unended and 1 or 0)
end
-- end holds/ended

-- part line/tell
-- What is told of grants, to each session once. Who is asker is told by the reply.
local told, owners = {}, {}
local function tell(ticket, paid)
  local owner = string.sub(ticket, 1, 22)
  if not told[owner] then
    told[owner], owners[#owners + 1] = {}, owner
  end
  local lot = told[owner]
  lot[#lot + 1] = string.sub(ticket, 23, 41) .. floor .. paid
end
local function publish()
  for _, owner in ipairs(owners) do
    if owner ~= asker then
      redis.pcall(verb, channel .. owner, table.concat(told[owner]))
    end
  end
  return table.concat(told[asker] or {})
end
-- end line/tell

-- part holds/grant
-- Gives a hold to a ticket: for the rest of its session's life, which the message says what heartbeat paid for, and at
-- least a second, so that no place is lost for a few milliseconds.
local granted, grants = {}, 0 -- the token's stamp by ticket, and how many
local function grant(line, ticket, life, ...)
  local till = string.format('%016.0f', tonumber(now) + 1000000)
  if string.sub(life, 1, 16) > till then
    till = string.sub(life, 1, 16)
  end
  redis.call('ZREM', line, ticket)
  give(ticket .. string.sub(life, 37), till, ...)
  granted[ticket], grants = floor, grants + 1
  if ticket ~= caller then
    tell(ticket, string.sub(life, 17, 36))
  end
end
-- end holds/grant

-- part rwlock/handoff
-- Lets in who may come in. phase is '1' while a writer has the lock, or had it last; '2' while the readers come in that
-- waited for a writer's end; '0' while readers have it, '3' while that is one and no other came beside it.
--
-- Where a writer is done all readers in line come in. Otherwise those come in that stand before the first writer
-- that lives; and where nobody has the lock then, that writer does. At most 128 a call, which is about a millisecond.
local phase = scores[2]
local is_open -- whether a reader may come in who stands in no line
-- How many stand in line, or more; skips says that none do. Asked before the first write, as the type of lives is: a key
-- that is foreign makes the call fail before it has an effect.
local waiting = skips and 0 or redis.call('ZCARD', line) + redis.call('ZCARD', readers)
if waiting > 0 then
  redis.call('HLEN', lives)
end
local function mark_left()
  return marked and waiting > 0 and 1 or 0
end
local function hand_off()
  if waiting > 0 then
    mark()
  end
  if first and phase == '1' then
    return
  end
  is_open = true
  if waiting == 0 then
    if phase == '2' or first and marked then
      redis.call('ZADD', holder, 0, 'phase', 0, 'queue')
    end
    return
  end
  local all, before = phase == '2' or phase == '1', nil
  local writer, writers_life = search(line, 'from')()
  if writer then
    before, is_open = tonumber(redis.call('ZSCORE', line, writer)), false
  elseif more == 1 then
    is_open = false
    if not all then
      return -- whether a writer waits is not known yet
    end
  end
  local next_reader = search(readers, 'from2')
  local reader, life = next_reader()
  while reader and (all or not before or tonumber(redis.call('ZSCORE', readers, reader)) < before) do
    if grants == 128 then
      more = 1
      break
    end
    grant(readers, reader, life, 0, 'phase')
    reader, life = next_reader()
  end
  if grants == 0 and not first and more == 0 and writer then
    grant(line, writer, writers_life, 1, 'phase')
  elseif all and more == 1 then
    redis.call('ZADD', holder, 2, 'phase')
  elseif phase == '2' then
    redis.call('ZADD', holder, 0, 'phase')
  end
end
-- What is left where nobody has the lock: the floor of the tokens, or while somebody queues a key that keeps other
-- kinds of lock out, for longer than there is between two looks of any waiter.
local function put_down()
  if first or grants > 0 then
    return
  end
  if waiting == 0 or redis.call('EXISTS', line, readers) == 0 then
    redis.call('DEL', holder)
    if floor ~= '' then
      redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
    end
    return
  end
  redis.pcall('PEXPIRE', holder, after_ms)
end
-- end rwlock/handoff

if other then
  return {-2, other}
end

local full = string.format('%016.0f', tonumber(now) + life_us)
if scores[7] then
  lengthen(own, full)
  return {1, floor, now}
end

-- Nobody waits, and a reader comes beside others, or whoever comes is the first: who else is there need not be known.
if waiting == 0 and not made then
  give(own, full, mode == 'r' and 3 or 1, 'phase')
  return {1, floor, now}
elseif waiting == 0 and mode == 'r' and phase ~= '1' then
  give(own, full, 0, 'phase', 0, 'queue')
  return {1, floor, now}
end

-- Read before the first write: a foreign key makes the call fail without an effect.
local before = queues == '1' and redis.call('HGET', lives, session)
if skips and queues == '1' then
  waiting = redis.call('ZCARD', line) + redis.call('ZCARD', readers)
end
take_out_ended()
local free = not first
local takes = free and waiting == 0
if not takes then
  local due = 0
  if queues == '1' then
    mark()
    join(mode == 'r' and readers or line, {line, readers}, ticket)
    waiting = waiting + 1
    if number ~= '' then
      beat(before)
    elseif not living(before, now) then
      due = 1 -- it thought that it had been heard
    end
  end
  hand_off()
  more = math.max(more, due)
  if granted[ticket] then
    lengthen(own, full)
    publish()
    return {1, granted[ticket], now}
  end
  -- Whoever tries goes before the dead, and before nobody else.
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
  give(own, full, mode == 'r' and 0 or 1, 'phase', mark_left(), 'queue')
  return {1, floor, now}
end
if grants > 0 then
  find_first()
end
return {0, left_us, is_unfinished(), now}
