-- countdown/reset v1
-- Ends a round that is running, without opening it. Any number of times.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- ARGV[1]  begun    nonce (11) of the round
-- ARGV[2]  verb     PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen
-- returns  {1, now}  reset; now is the server's time
--          {0, now}  this round does not run
--          {-2}      the key is no latch's
-- effects  writes KEYS[1]; publishes stamp, 'x' and nonce
-- cost     O(1): TIME, HGET twice, HSET and PEXPIRE twice, UNLINK, and the message
local latch = KEYS[1]
local begun, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

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

-- part countdown/finish
-- Ends the round: its ids go, how it ended stays, and who waits is told. PEXPIRE comes first since it takes no memory:
-- neither it nor what follows is refused where memory is full. UNLINK leaves the work of freeing the ids to another
-- thread. It may be denied, and the ids then stay until the next start; what comes after it was allowed a moment before.
local function finish(ending)
  local ended = 'sb1' .. stamp .. ending .. nonce .. string.sub(value, 32)
  local past = redis.call('HGET', latch, 'past') or ''
  redis.call('PEXPIRE', latch, ms)
  redis.call('HSET', latch, 'round', ended)
  if redis.pcall('UNLINK', latch) == 1 then
    redis.call('HSET', latch, 'round', ended, 'past', past)
    redis.call('PEXPIRE', latch, ms)
  end
  redis.pcall(verb, channel, stamp .. ending .. nonce)
end
-- end countdown/finish

if nonce ~= begun or state ~= 'c' then
  return {0, now}
end
finish('x')
return {1, now}
