-- queue/heard
-- Whether a session can hear of a grant. One that was heard at this server at its last poll has to
-- be heard still. Another may listen at a replica. count is how many listeners it has here, if that
-- is known. The caller gets a reply.
--
-- uses     channel, session
-- defines  listeners, is_heard
local listeners = {} -- how many a session has here, if that was asked for
local function is_heard(owner, life, count)
  if owner == session or string.sub(life, 37, 37) ~= '+' then
    return true
  end
  if not listeners[owner] then
    listeners[owner] = count or redis.pcall('PUBSUB', 'NUMSUB', channel .. owner)[2] or 1
  end
  return listeners[owner] ~= 0
end
