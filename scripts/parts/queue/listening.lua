-- queue/listening
-- Returns whether the session listens for grants: '+' if this server has a listener for them, '-'
-- if there is no listener, or it does not say. In a cluster it is '-': the slot may be at another
-- node at the next grant, at which the session does not listen yet.
--
-- uses     channel, session, verb
-- defines  listening
local function listening()
  if verb == 'SPUBLISH' then
    return '-'
  end
  local counts = redis.pcall('PUBSUB', 'NUMSUB', channel .. session)
  return (counts[2] or 0) ~= 0 and '+' or '-'
end
