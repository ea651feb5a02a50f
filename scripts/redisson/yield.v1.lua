-- redisson/yield v1
-- Gives a lock back, as Redisson's RLock has it, that was passed on inside one process for long. Nobody can tell whether others
-- wait, since the layout has no place for a mark: they get their chance.
--
-- KEYS[1]  lock     hash: see redisson/acquire v1
-- ARGV[1]  hold     56 characters
-- ARGV[2]  _ttl_ms  not used: it does not go on
-- ARGV[3]  _floor   not used: the key is gone
-- ARGV[4]  verb     PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[5]  channel  where waiters listen
-- returns  {0}  this hold has the lock no more
--          {2}  given back, and whoever waits was told
--          an error  the server's refusal
-- effects  writes KEYS[1]; publishes 0 to channel
-- cost     O(1): HGET, DEL and the message
local lock = KEYS[1]
local hold, _ttl_ms, _floor, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

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

local has = redis.pcall('HGET', lock, hold)
if type(has) == 'table' and string.sub(has['err'], 1, 9) ~= 'WRONGTYPE' then
  return has
end
if type(has) ~= 'string' then
  return {0}
end
redis.call('DEL', lock)
tell(verb, channel, '0')
return {2}
