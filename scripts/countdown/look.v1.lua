-- countdown/look v1
-- Tells how a latch stands, and keeps its key.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- returns  {1, value, past, left}  both fields, and how many ids more open the round, 0 where it does not count
--          {0}                     there is no key
--          {-2}                    the key is no latch's
-- effects  makes KEYS[1] live on where a sixtieth of its life is over; publishes nothing
-- cost     O(1): HGET twice, HLEN, PTTL; PEXPIRE at times
local latch = KEYS[1]

-- part countdown/round
-- What the latch says of its newest round: its stamp, how it stands (c counts, o open, x reset), its nonce, and
-- how long the key is kept. foreign: the key is no latch's.
local value = redis.call('HGET', latch, 'round')
local foreign = value and (#value ~= 65 or string.sub(value, 1, 3) ~= 'sb1')
if not value then
  foreign = redis.call('EXISTS', latch) == 1
end
local stamp, state, nonce, ms = '', '', '', 0
if value and not foreign then
  stamp, state, nonce = string.sub(value, 4, 19), string.sub(value, 20, 20), string.sub(value, 21, 31)
  ms = tonumber(string.sub(value, 56))
end
-- end countdown/round
if foreign then
  return {-2}
end
if not value then
  return {0}
end

local left = 0
if state == 'c' then
  left = tonumber(string.sub(value, 48, 55)) - redis.call('HLEN', latch) + 2
end
-- Whoever waits looks each second, and is not to write each second. What is not written is missing from the key's life: a
-- sixtieth of it.
if redis.call('PTTL', latch) < ms - ms / 60 then
  -- By pcall: who may only look is told all the same.
  redis.pcall('PEXPIRE', latch, ms)
end
return {1, value, redis.call('HGET', latch, 'past') or '', left}
