-- reentrant/gather v1
-- Takes locks one after the other, for somebody who wants all of them, and none behind the first that it cannot take.
-- Sent again for the same holds it returns the last stamps of their tokens, and no blocks.
--
-- KEYS[n]  holder   string: see reentrant/acquire v1
-- ARGV[n]  request  three by key, at 3n-2 to 3n: claim, ttl_ms, not_after
--            claim      hold, fresh for every attempt and begun by its session (22), 22 dashes, label
--            ttl_ms     positive integer
--            not_after  stamp; executed later, nothing is written
-- returns  {reply, ...}  one a key, the last for the first that was not taken; each is
--            stamp                taken, at the server's time stamp; 256 us of tokens from there on are the hold's
--            {1, stamp, us, now}  taken, at a stamp that is not the server's time now; us of tokens are the hold's
--            {0, left_ms, now}    somebody else holds it, left_ms until its key ends
--            {-1, now}            later than not_after
--            {-2, kind}           the name is in use by another kind of lock, or is no key of ours ('?')
--            an error             the server's refusal of that key
-- effects  writes KEYS; publishes nothing, and leaves no mark: who waits for a lock asks for it by reentrant/acquire
-- cost     O(keys): TIME, MGET once; SET each; GET where MGET finds no string; held: PTTL

-- See reentrant/acquire v1 for what the layout says and why tokens run ahead of the clock no further.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

-- One command for all of them. It has nothing for a key of another type: that is asked for again.
local values = redis.pcall('MGET', unpack(KEYS))
local replies = {}
for n = 1, #KEYS do
  local holder, claim, ttl_ms, not_after = KEYS[n], ARGV[3 * n - 2], ARGV[3 * n - 1], ARGV[3 * n]
  local value = values[n] or redis.pcall('GET', holder)
  local kind = type(value) == 'string' and string.sub(value, 1, 4)
  local reply, stamp = now, now

  if now > not_after then
    reply, stamp = {-1, now}, nil
  elseif kind == 'sb1-' and #value == 20 then
    local floor = string.sub(value, 5, 20)
    if now <= floor then
      local ahead, us = tonumber(floor) + 1, 256
      if ahead + us > tonumber(now) + 100000 then
        us = 0
      end
      reply = {1, string.format('%016.0f', ahead), us, now}
      stamp = string.format('%016.0f', ahead + us - 256)
    end
  elseif kind == 'sb1r' and #value >= 83 and #value <= 147 then
    if string.sub(value, 21, 61) == string.sub(claim, 1, 41) then
      stamp, claim = string.sub(value, 5, 20), string.sub(value, 21)
      reply = {1, string.format('%016.0f', tonumber(stamp) + 256), 0, now}
    else
      reply, stamp = {0, redis.call('PTTL', holder), now}, nil
    end
  elseif kind then
    reply, stamp = {-2, '?'}, nil
    if string.sub(kind, 1, 3) == 'sb1' and kind ~= 'sb1r' and kind ~= 'sb1-' then
      reply[2] = string.sub(kind, 4)
    end
  elseif value then
    reply, stamp = value, nil
    if type(redis.pcall('ZSCORE', holder, 'sb1w')) == 'string' then
      reply = {-2, 'w'} -- a lock that several may have: see rwlock/enter v1
    end
  end

  if stamp then
    local written = redis.pcall('SET', holder, 'sb1r' .. stamp .. claim, 'PX', ttl_ms)
    if written['err'] then
      reply, stamp = written, nil
    end
  end
  replies[n] = reply
  if not stamp then
    break
  end
end
return replies
