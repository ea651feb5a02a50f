-- redisson/release v1
-- Gives locks back that their holds still have, as Redisson's RLock has them, and tells whoever waits.
--
-- KEYS[n]  lock     hash: see redisson/acquire v1
-- ARGV[n]  request  five by key, at 5n-4 to 5n: held, _floor, verb, channel, _keep_ms
--            held     20 characters that the layout has no place for, and the hold (56)
--            _floor   not used: the key is gone
--            verb     PUBLISH or SPUBLISH, or both with a blank between
--            channel  where waiters listen
--            _keep_ms  not used, as the floor
-- returns  reply, {reply, ...}  bare for one key, a list for more; each is
--            0         this hold has it no more
--            1         given back; nobody listens, as far as this node knows
--            2         given back, and somebody listens, who may be of the hold's own session
--            an error  the server's refusal of that key
-- effects  writes KEYS; publishes 0 to channel
-- cost     O(keys): HGET, DEL and the message each

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

local replies = {}
for n = 1, #KEYS do
  local lock, held, _floor = KEYS[n], ARGV[5 * n - 4], ARGV[5 * n - 3]
  local verb, channel, _keep_ms = ARGV[5 * n - 2], ARGV[5 * n - 1], ARGV[5 * n]
  local value = redis.pcall('HGET', lock, string.sub(held, 21, 76))
  local reply = 1

  if type(value) == 'table' then
    reply = value
    if string.sub(value['err'], 1, 9) == 'WRONGTYPE' then
      reply = 0
    end
  elseif not value then
    reply = 0
  else
    local gone = redis.pcall('DEL', lock)
    if type(gone) == 'table' then
      reply = gone
    elseif tell(verb, channel, '0') > 0 then
      reply = 2
    end
  end
  if #KEYS == 1 then
    return reply
  end
  replies[n] = reply
end
return replies
