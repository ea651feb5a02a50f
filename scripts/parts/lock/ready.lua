-- include queue/now
-- lock/ready
-- Whether a ticket is not passed over for one behind it: that of a fair request never is; that of a
-- turn is, if its session was not heard of lately: within 1.2 times the pause between two polls of
-- a session that waits for few locks.
--
-- uses     session
-- defines  is_lively
local function is_lively(ticket, owner, life)
  return owner == session or string.sub(ticket, 42) ~= 'r' or tonumber(string.sub(life, 1, 16)) - tonumber(now) >= 1800000
end
