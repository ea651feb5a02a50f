-- countdown/reset v1
-- Ends a round that is running, without opening it. Any number of times.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- ARGV[1]  begun  nonce (11) of the round
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  on which waiters listen
-- returns  {1, now}  reset; now is the server's time
--          {0, now}  this round does not run
--          {-2}      the key is no latch's
-- effects  writes KEYS[1]; publishes stamp, 'x' and nonce
-- cost     O(1): TIME, HGET twice, HSET and PEXPIRE twice, UNLINK, and the message
local latch = KEYS[1]
local begun, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include countdown/round
if is_foreign then
  return {-2}
end

-- include countdown/finish

if nonce ~= begun or state ~= 'c' then
  return {0, now}
end
finish('x')
return {1, now}
