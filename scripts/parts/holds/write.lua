-- include holds/state
-- include key/lengthen
-- include queue/now
-- holds/write
-- Makes the key of the holds, with these scores and an end. A sender without the right to PEXPIRE
-- leaves no key without an end.
--
-- uses     after_ms, floor, has_room, holder, keep_ms, kind, lengthen_key, life_us, now, scores
-- defines  is_marked, made, make_key, mark, note_life, released, write_hold
local made, released = scores[1], floor ~= ''
local function make_key(ms, ...)
  if released then
    -- Refused if memory is full, which nothing after a DEL is. A sender without the right to DEL
    -- leaves a floor.
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

-- Notes the longest life that a hold of the key was given by its own session, if that is longer
-- than any heartbeat gives: see holds/bound.
local function note_life()
  if tonumber(life_us) > MAX_LIFE_US then
    redis.call('ZADD', holder, 'GT', life_us, 'longest')
  end
end

-- Writes a hold down until then, with the next token: later than floor, the last one used, also
-- where the clock was set back. Further scores may follow. The key outlives all its holds by
-- after_ms.
local function write_hold(hold, till, ...)
  if now > floor then
    floor = now
  else
    floor = string.format('%016.0f', tonumber(floor) + 1)
  end
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / US_PER_MS + after_ms)
  if not made then
    make_key(ms, '-' .. floor, kind, till, hold, ...)
    note_life()
    return
  end
  local added = redis.call('ZADD', holder, '-' .. floor, kind, till, hold, ...)
  if not pcall(lengthen_key, holder, ms) then
    -- A sender without the right to that keeps what it has, and gets nothing: a hold that is new
    -- ends at once.
    if added > 0 then
      redis.call('ZADD', holder, now, hold)
    end
    lengthen_key(holder, ms)
  end
  note_life()
end

-- The mark: tickets may be in the queue. Without it enter and a certain leave do not read the
-- queue. It is written before a ticket; a hand-off that finds tickets writes it if the key was lost
-- with it, and only one that finds none removes it. The scores are further ones of a key that is
-- made.
local is_marked = scores[6] == '1'
local function mark(...)
  if not made then
    make_key(after_ms, '-' .. (released and floor or '0'), kind, 1, 'queue', ...)
  elseif not is_marked then
    redis.call('ZADD', holder, 1, 'queue')
  end
  is_marked = true
end
