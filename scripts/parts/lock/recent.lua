-- include queue/now
-- lock/recent
-- Whether a ticket is not passed over for one behind it: that of a fair request never is; that of a
-- turn is, unless a heartbeat of its session arrived lately: within 1.2 times the pause between two
-- polls of a session that waits for few locks.
--
-- uses     now, session
-- defines  is_recent
local function is_recent(ticket, owner, life)
  return owner == session or string.find(ticket, '[fF]', TICKET_LENGTH) or tonumber(string.sub(life, 1, LIFE_END)) - tonumber(now) >= RECENT_US
end
