-- lock/acquire-many v1
-- Takes locks one after the other, for a caller that wants all of them, and none behind the first
-- that it cannot take. A lock for which a queue may exist is not taken. Sent again for the same
-- tickets it returns the stamps of their holds.
--
-- KEYS[n]  holder  string: see lock/enter v1
-- ARGV[n]  request  four by key, at 4n-3 to 4n: ticket, life_ms, not_after, label
--            ticket     id (41), fresh for every attempt, and mode (1)
--            life_ms    how long the hold lasts, a positive integer
--            not_after  stamp; executed later, nothing is written
--            label      of the caller, 0 to 64 bytes
-- returns  {reply, ...}  one a key, the last for the first that was not taken; each is
--            stamp              taken; the tokens of stamp to stamp + 255 are the hold's
--            {0, left_ms, now}  held, for left_ms at the most, or a queue may exist
--            {-1, now}          later than not_after
--            {-2, kind}         the name is in use by another kind of lock, or is no lock's key
--            ('?')
--            an error           the server's refusal of that key
-- effects  writes KEYS; publishes nothing
-- cost     O(keys): TIME, MGET once; SET each; GET if MGET finds no string; held: PTTL

for n = 1, #KEYS do
  assert(string.find(ARGV[4 * n - 2], '^[1-9]%d*$') and #ARGV[4 * n - 2] <= MAX_DIGITS
    and #ARGV[4 * n - 3] == TICKET_LENGTH and #ARGV[4 * n] <= MAX_LABEL, 'bad argument')
end

-- include queue/now

-- include lock/longest

-- One command for all of them. It has nothing for a key of another type: that is asked for again.
local values = redis.pcall('MGET', unpack(KEYS))
local replies = {}
for n = 1, #KEYS do
  local holder, ticket, life_ms, not_after = KEYS[n], ARGV[4 * n - 3], ARGV[4 * n - 2], ARGV[4 * n - 1]
  local label = ARGV[4 * n]
  local value = values[n] or redis.pcall('GET', holder)
  local kind = type(value) == 'string' and string.sub(value, 1, 4)
  local reply, taken = now, true

  if now > not_after then
    reply, taken = {-1, now}, false
  elseif kind == 'sb1-' and #value == STAMP_END then
    if now <= string.sub(value, STAMP_START, STAMP_END) then
      reply = string.format('%016.0f', tonumber(string.sub(value, STAMP_START, STAMP_END)) + 1)
    end
  elseif kind == 'sb1l' and #value >= MARK_AT and #value <= MARK_AT + MAX_TAIL then
    local ttl_ms, after_ms = redis.call('PTTL', holder), string.sub(value, MARK_AT, MARK_AT) == 'q' and GRACE_MS or 0
    if string.sub(value, ID_START, MODE_AT) == ticket then
      reply, taken = string.sub(value, STAMP_START, STAMP_END), false
      if ttl_ms >= 0 and ttl_ms < life_ms + after_ms then -- it is not made shorter
        redis.call('PEXPIRE', holder, life_ms + after_ms)
      end
      note_life(holder, life_ms, value)
    else
      if string.sub(value, MODE_AT, MODE_AT) == '-' then
        ttl_ms = 0 -- marked, without a hold
      else
        if ttl_ms < 0 or ttl_ms > longest_ms(value) + after_ms then
          ttl_ms = longest_ms(value) + after_ms
          redis.pcall('PEXPIRE', holder, ttl_ms)
        end
        ttl_ms = math.max(ttl_ms - after_ms, 0)
      end
      reply, taken = {0, ttl_ms, now}, false
    end
  elseif kind then
    reply, taken = {-2, '?'}, false
    if string.sub(kind, 1, 3) == 'sb1' and #kind == 4 and kind ~= 'sb1l' and kind ~= 'sb1-' then
      reply[2] = string.sub(kind, 4)
    end
  elseif value then
    reply, taken = value, false
    if type(redis.pcall('ZSCORE', holder, 'sb1w')) == 'string' then
      reply = {-2, 'w'} -- a lock that several may hold: see rwlock/enter v1
    end
  end

  if taken then
    local tail_of_hold = tonumber(life_ms) > NOTED_LIFE_MS and label .. '\n' .. string.format('%.0f', tonumber(life_ms)) or label
    local written = redis.pcall('SET', holder, 'sb1l' .. reply .. ticket .. '-' .. tail_of_hold, 'PX', life_ms)
    if written['err'] then
      reply = written
    end
  end
  replies[n] = reply
  if type(reply) == 'table' then
    break
  end
end
return replies
