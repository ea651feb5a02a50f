-- queue/unlisted
-- Returns the attempt, and what follows it in the ticket, if a ticket of the session keeps out those
-- behind it and the poll does not list it: a failover may have brought it back. Else returns
-- nothing.
--
-- uses     blocked, session, tickets
-- defines  find_unlisted
local function find_unlisted()
  if not blocked or string.sub(blocked, 1, SESSION_LENGTH) ~= session then
    return nil
  end
  for _, ticket in ipairs(tickets) do
    if ticket == blocked then
      return nil
    end
  end
  return string.sub(blocked, SESSION_LENGTH + 1)
end
