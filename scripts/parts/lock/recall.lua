-- lock/recall
-- Sends a message to the session of a hold whose mode matches, for an attempt that wants the lock:
-- k may be idle and is recalled, R and F want to learn of it. If the message is lost, or the sender
-- lacks the right, the reply to the next renewal says that the key is marked. PUBLISH reaches the
-- session at every node of a cluster.
--
-- uses     hold, holder
-- defines  recall
local function recall(modes)
  if string.find(hold, modes, TICKET_LENGTH) then
    local session_channel = string.match(holder, '^[^{]*') .. 'session:'
    redis.pcall('PUBLISH', session_channel .. string.sub(hold, 1, SESSION_LENGTH), 'recall:' .. string.sub(hold, SESSION_LENGTH + 1, ID_LENGTH))
  end
end
