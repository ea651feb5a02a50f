-- line/tell
-- The grants of each session, for one message each. The session asker gets its own in the reply.
--
-- uses     asker, channel, floor, verb
-- defines  told, owners, tell, publish
local told, owners = {}, {}
local function tell(ticket, paid)
  local owner = string.sub(ticket, 1, 22)
  if not told[owner] then
    told[owner], owners[#owners + 1] = {}, owner
  end
  local lot = told[owner]
  lot[#lot + 1] = string.sub(ticket, 23, 41) .. floor .. paid
end
local function publish()
  for _, owner in ipairs(owners) do
    if owner ~= asker then
      redis.pcall(verb, channel .. owner, table.concat(told[owner]))
    end
  end
  return table.concat(told[asker] or {})
end
