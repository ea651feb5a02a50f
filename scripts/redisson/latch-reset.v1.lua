-- redisson/latch-reset v1
-- Deletes a latch that is not open, as Redisson's RCountDownLatch has it. Sent again it deletes what was started since.
--
-- KEYS[1]  latch  text: see redisson/latch-start v1
-- ARGV[1]  _begun   not used: rounds have no names
-- ARGV[2]  verb     PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  where waiters listen
-- returns  {1, now}  deleted; now is the server's time
--          {0, now}  there is none
--          {-2}      the key is not a latch's
-- effects  writes KEYS[1]; publishes 1
-- cost     O(1): TIME, GET, DEL, and the message
local latch = KEYS[1]
local _begun, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part redisson/tell
-- Tells who listens to a channel, by each of so many commands with a blank between, and answers how many hear it as far as
-- this node knows. Whoever is not told looks, so a refusal changes nothing.
local function tell(verbs, channel, message)
  local heard = 0
  for verb in string.gmatch(verbs, '%S+') do
    local here = redis.pcall(verb, channel, message)
    if type(here) == 'number' then
      heard = heard + here
    end
  end
  return heard
end
-- end redisson/tell

local value = redis.call('GET', latch)
if not value then
  return {0, now}
end
if not string.match(value, '^%-?%d+$') then
  return {-2}
end
redis.call('DEL', latch)
tell(verb, channel, '1')
return {1, now}
