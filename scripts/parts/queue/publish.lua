-- queue/publish
-- Collects the grants of each session, and publishes them in one message each. The session
-- requester gets its own in the reply.
--
-- uses     channel, floor, requester, verb
-- defines  announce, messages, owners, publish
local messages, owners = {}, {}
local function announce(ticket, paid)
  local owner = string.sub(ticket, 1, SESSION_LENGTH)
  if not messages[owner] then
    messages[owner], owners[#owners + 1] = {}, owner
  end
  local message = messages[owner]
  message[#message + 1] = string.sub(ticket, SESSION_LENGTH + 1, ID_LENGTH) .. floor .. paid
end
local function publish()
  for _, owner in ipairs(owners) do
    if owner ~= requester then
      redis.pcall(verb, channel .. owner, table.concat(messages[owner]))
    end
  end
  return table.concat(messages[requester] or {})
end
