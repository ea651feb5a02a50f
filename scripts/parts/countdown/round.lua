-- countdown/round
-- What the latch says of its newest round: its stamp, its state (c counts, o open, x reset), its
-- nonce, and how long the key is kept. is_foreign: the key is no latch's.
--
-- uses     latch
-- defines  value, is_foreign, stamp, state, nonce, ms
local value = redis.call('HGET', latch, 'round')
local is_foreign = value and (#value ~= 65 or string.sub(value, 1, 3) ~= 'sb1')
if not value then
  is_foreign = redis.call('EXISTS', latch) == 1
end
local stamp, state, nonce, ms = '', '', '', 0
if value and not is_foreign then
  stamp, state, nonce = string.sub(value, 4, 19), string.sub(value, 20, 20), string.sub(value, 21, 31)
  ms = tonumber(string.sub(value, 56))
end
