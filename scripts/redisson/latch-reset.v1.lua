-- redisson/latch-reset v1
-- Deletes a latch that is not open, as Redisson's RCountDownLatch has it. Sent again it deletes
-- what was started since.
--
-- KEYS[1]  latch  text: see redisson/latch-start v1
-- ARGV[1]  _begun  not used: rounds have no names
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- returns  {1, now}  deleted; now is the server's time
--          {0, now}  there is no latch
--          {-2}      the key is not a latch's
-- effects  writes KEYS[1]; publishes 1
-- cost     O(1): TIME, GET, DEL, and the message
local latch = KEYS[1]
local _begun, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include redisson/notify

local value = redis.call('GET', latch)
if not value then
  return {0, now}
end
if not string.match(value, '^%-?%d+$') then
  return {-2}
end
redis.call('DEL', latch)
notify(verb, channel, '1')
return {1, now}
