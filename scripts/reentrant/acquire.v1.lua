-- reentrant/acquire v1
-- Takes locks that are free, each for a hold of its own and whatever becomes of the others.
-- Sent again for the same hold it returns the last stamp of the hold's tokens, and no block.
--
-- KEYS[n]  holder     string: 'sb1', kind (1), stamp (16), hold (41), mark (22), label (0 to 64); see README.md
-- ARGV[n]  request    four by key, at 4n-3 to 4n: claim, ttl_ms, not_after, mark
--            claim      hold, fresh for every attempt and begun by its session (22), 22 dashes, label
--            ttl_ms     positive integer
--            not_after  stamp; executed later, nothing is written
--            mark       session (22) that wants a message at the release, or ''
-- returns  reply, {reply, ...}  bare for one key, a list for more; each is
--            stamp                taken, at the server's time stamp; 256 us of tokens from there on are the hold's
--            {1, stamp, us, now}  taken, at a stamp that is not the server's time now; us of tokens are the hold's
--            {0, left_ms, now}    somebody else holds it, left_ms until its key ends
--            {-1, now}            later than not_after
--            {-2, kind}           the name is in use by another kind of lock, or is no key of ours ('?')
--            an error             the server's refusal of that key
-- effects  writes KEYS; publishes nothing
-- cost     O(keys): TIME once; GET, SET each; held: GET, PTTL, and SET for the first waiter

-- A stamp is 16 digits: the server's microseconds since 1970. Equal lengths compare as texts,
-- which spares the conversions.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

-- No functions and no tables that the common path does not need: they cost a third of it.
local replies = {}
for n = 1, #KEYS do
  local holder, claim, ttl_ms = KEYS[n], ARGV[4 * n - 3], ARGV[4 * n - 2]
  local not_after, mark = ARGV[4 * n - 1], ARGV[4 * n]
  local value = redis.pcall('GET', holder)
  local kind = type(value) == 'string' and string.sub(value, 1, 4)
  local reply, stamp = now, now

  if now > not_after then
    reply, stamp = {-1, now}, nil
  elseif kind == 'sb1-' and #value == 20 then
    local floor = string.sub(value, 5, 20)
    if now <= floor then
      -- The clock is behind the last token: it was set back, or the lock is taken more than
      -- once in a microsecond. Tokens reserved must not run more than 100 ms ahead of the
      -- clock: the shortest lease is as long, so that a floor lost with its key is behind the
      -- clock by then.
      local ahead, us = tonumber(floor) + 1, 256
      if ahead + us > tonumber(now) + 100000 then
        us = 0
      end
      reply = {1, string.format('%016.0f', ahead), us, now}
      -- The key says where a block would begin that ends with the hold's last token: a hold without a block raises the
      -- floor by no more than its own stamp, whatever way it ends.
      stamp = string.format('%016.0f', ahead + us - 256)
    end
  elseif kind == 'sb1r' and #value >= 83 and #value <= 147 then
    local marked = string.sub(value, 62, 83)
    if string.sub(value, 21, 61) == string.sub(claim, 1, 41) then
      stamp, claim = string.sub(value, 5, 20), string.sub(value, 21)
      reply = {1, string.format('%016.0f', tonumber(stamp) + 256), 0, now}
    else
      -- A mark of the holder's own session tells nobody anything: it is replaced.
      if mark ~= '' and (marked == '----------------------' or marked == string.sub(value, 21, 42)) then
        redis.pcall('SET', holder, string.sub(value, 1, 61) .. mark .. string.sub(value, 84), 'KEEPTTL')
      end
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
      reply = written
    end
  end
  if #KEYS == 1 then
    return reply
  end
  replies[n] = reply
end
return replies
