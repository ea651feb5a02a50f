-- redisson/withdraw v1
-- Takes back an acquire whose outcome its sender does not know, of a lock as Redisson's RLock has it.
--
-- KEYS[1]  lock     hash: see redisson/acquire v1
-- ARGV[1]  hold     56 characters
-- ARGV[2]  verb     PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  where waiters listen
-- returns  {0, now}  this hold does not have the lock; now is the server's time, a stamp
--          {1, now}  it had, and gave it back
--          an error  the server's refusal
-- effects  writes KEYS[1]; publishes 0 to channel
-- cost     O(1): TIME, HGET, and DEL and the message
local lock = KEYS[1]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

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

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

local has = redis.pcall('HGET', lock, hold)
if type(has) == 'table' and string.sub(has['err'], 1, 9) ~= 'WRONGTYPE' then
  return has
end
if type(has) ~= 'string' then
  return {0, now}
end
redis.call('DEL', lock)
tell(verb, channel, '0')
return {1, now}
