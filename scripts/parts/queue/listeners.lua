-- queue/listeners
-- Whether a session can receive a grant. A session that listened at this server at its last poll
-- has to listen still. Another session may listen at a replica. count is the number of its
-- listeners here, if that is known. The caller receives the reply.
--
-- uses     channel, session
-- defines  is_listening, listeners
local listeners = {} -- the number of listeners of a session here, once it was asked for
local function is_listening(owner, life, count)
  if owner == session or string.sub(life, LISTENING_AT, LISTENING_AT) ~= '+' then
    return true
  end
  if not listeners[owner] then
    listeners[owner] = count or redis.pcall('PUBSUB', 'NUMSUB', channel .. owner)[2] or 1
  end
  return listeners[owner] ~= 0
end
