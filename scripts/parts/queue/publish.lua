-- queue/publish
-- Collects the grants of each session, and publishes them in one message each. The session
-- requester gets its own in the reply.
--
-- uses     requester, channel, floor, verb
-- defines  messages, owners, announce, publish
local messages, owners = {}, {}
local function announce(ticket, paid)
  local owner = string.sub(ticket, 1, 22)
  if not messages[owner] then
    messages[owner], owners[#owners + 1] = {}, owner
  end
  local message = messages[owner]
  message[#message + 1] = string.sub(ticket, 23, 41) .. floor .. paid
end
local function publish()
  for _, owner in ipairs(owners) do
    if owner ~= requester then
      redis.pcall(verb, channel .. owner, table.concat(messages[owner]))
    end
  end
  return table.concat(messages[requester] or {})
end
