-- countdown/round
-- What the latch says of its newest round: its stamp, its state (c counts, o open, x reset), its
-- nonce, how long the key is kept, the rounds in past, and how many fields are no id. If a hand has
-- removed past, nothing is known of the rounds before. is_foreign: the key is no latch's.
--
-- uses     latch
-- defines  fields, is_foreign, ms, nonce, past, stamp, state, value
local value, past = redis.call('HGET', latch, 'round'), redis.call('HGET', latch, 'past')
local fields = past and 2 or 1
local is_foreign = value and (#value ~= ROUND_END or string.sub(value, 1, 3) ~= 'sb1')
if not value then
  is_foreign = redis.call('EXISTS', latch) == 1
end
local stamp, state, nonce, ms = '', '', '', 0
if value and not is_foreign then
  stamp, state, nonce = string.sub(value, 4, ROUND_STAMP_END), string.sub(value, STATE_AT, STATE_AT), string.sub(value, NONCE_START, NONCE_END)
  ms = tonumber(string.sub(value, TOTAL_END + 1))
  if not past then
    value = string.sub(value, 1, NONCE_END) .. stamp .. string.sub(value, SINCE_END + 1)
  end
end
past = past or ''
