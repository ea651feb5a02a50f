-- rwlock/leave v1
-- Ends a hold: gives the lock back if the hold has it, else takes its ticket out of the line; and lets in who may
-- come in then. Any number of times.
--
-- KEYS[1]  holder   sorted set: see rwlock/enter v1
-- KEYS[2]  line     sorted set: see rwlock/enter v1
-- KEYS[3]  readers  sorted set: see rwlock/enter v1
-- KEYS[4]  lives    hash: see rwlock/enter v1
-- ARGV[1]  name  the hold, 41 characters, and the label of its session
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the floor of a lock that nobody holds is kept
-- ARGV[6]  sure  1 if the hold certainly has no ticket: the first and only answer to its only enter was that it has the lock; else 0
-- returns  {0, now}  this hold has nothing here
--          {1, 0, '', 0}  it had the lock alone, and nobody waits; nothing that needs the time was done
--          {1, now, grants, more}  it had the lock; grants has attempt (19), stamp (16) and number (20) of each of this session that was let in; more is 1 where a look is due at once
--          {2, now, grants, more}  it stood in line
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels of their sessions, but for this one
-- cost     O(log n) in the tickets and holds: sure and without the mark ZMSCORE and SET, or beside others ZMSCORE, TIME, ZREM, ZRANGE; else
--          ZMSCORE, TIME, ZCARD twice, ZREM, ZRANGE; DEL and SET where nobody is left; more where somebody is let in
local holder, line, readers, lives = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local name, session, verb, channel, keep_ms, sure = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local kind, after_ms, asker, caller = 'sb1w', 15000, session, ''
local own, creates = name, false

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

-- Without the mark nobody waits. A writer and a reader that came alone have the lock alone. If SET is refused, the long way
-- begins with what needs no memory.
local skips = sure == '1' and scores[7] and scores[6] ~= '1'
local alone = scores[2] == '1' or scores[2] == '3'
if skips and alone and not redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)['err'] then
  return {1, 0, '', 0}
end

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

local had = made and redis.call('ZREM', holder, name) or 0
if had == 0 then
  local ticket = string.sub(name, 1, 41)
  if redis.call('ZREM', line, ticket) + redis.call('ZREM', readers, ticket) == 0 then
    return {0, now}
  end
end
if other then
  return {2, now, '', 0}
end
take_out_ended()
hand_off()
put_down()
if had == 1 then
  return {1, now, publish(), is_unfinished()}
end
return {2, now, publish(), is_unfinished()}
