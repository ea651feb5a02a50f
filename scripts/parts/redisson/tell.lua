-- redisson/tell
-- Tells who listens to a channel, by each of so many commands with a blank between, and answers how
-- many hear it as far as this node knows. Whoever is not told looks, so a refusal changes nothing.
--
-- uses     nothing
-- defines  tell
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
