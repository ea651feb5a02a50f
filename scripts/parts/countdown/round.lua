-- countdown/round
-- What the latch says of its newest round: its stamp, its state (c counts, o open, x reset), its
-- nonce, and how long the key is kept. is_foreign: the key is no latch's.
--
-- uses     latch
-- defines  is_foreign, ms, nonce, stamp, state, value
local value = redis.call('HGET', latch, 'round')
local is_foreign = value and (#value ~= ROUND_END or string.sub(value, 1, 3) ~= 'sb1')
if not value then
  is_foreign = redis.call('EXISTS', latch) == 1
end
local stamp, state, nonce, ms = '', '', '', 0
if value and not is_foreign then
  stamp, state, nonce = string.sub(value, 4, ROUND_STAMP_END), string.sub(value, STATE_AT, STATE_AT), string.sub(value, NONCE_START, NONCE_END)
  ms = tonumber(string.sub(value, TOTAL_END + 1))
end
