-- lock/recall
-- Recalls a hold that may be idle, for an attempt that wants the lock: its session gets a message.
-- If that is lost, or the sender lacks the right, the reply to the next renewal says that the key
-- is marked. PUBLISH reaches the session at every node of a cluster.
--
-- uses     hold, holder
-- defines  recall
local function recall()
  if string.sub(hold, TICKET_LENGTH) == 'k' then
    local session_channel = string.match(holder, '^[^{]*') .. 'session:'
    redis.pcall('PUBLISH', session_channel .. string.sub(hold, 1, SESSION_LENGTH), 'recall:' .. string.sub(hold, SESSION_LENGTH + 1, ID_LENGTH))
  end
end
