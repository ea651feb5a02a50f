-- redisson/notify
-- Publishes a message by each of the commands in verbs, with a blank between. Returns how many
-- listeners get it, as far as this node knows. A waiter that gets no message polls, so a refusal
-- changes nothing.
--
-- uses     nothing
-- defines  notify
local function notify(verbs, channel, message)
  local listeners = 0
  for verb in string.gmatch(verbs, '%S+') do
    local here = redis.pcall(verb, channel, message)
    if type(here) == 'number' then
      listeners = listeners + here
    end
  end
  return listeners
end
