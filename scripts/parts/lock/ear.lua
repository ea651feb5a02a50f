-- lock/ear
-- Whether grants of a session are heard: '+' if this server has a listener for them, '-' if it has
-- none, or does not say.
--
-- uses     channel, session, verb
-- defines  ear
local function ear()
  local said = redis.pcall('PUBSUB', verb == 'SPUBLISH' and 'SHARDNUMSUB' or 'NUMSUB', channel .. session)
  return (said[2] or 0) ~= 0 and '+' or '-'
end
