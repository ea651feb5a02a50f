-- include line/now
-- lock/ready
-- Whether a session can hear of a grant. One that was heard at this server at its last heartbeat
-- has to be heard still. Another may listen at a replica. count is how many listeners it has here,
-- if that is known. The caller gets a reply.
--
-- uses     channel, session
-- defines  is_heard, is_lively
local function is_heard(owner, life, count)
  if owner == session or string.sub(life, 37, 37) ~= '+' then
    return true
  end
  local said = count and {owner, count} or redis.pcall('PUBSUB', 'NUMSUB', channel .. owner)
  return said[2] ~= 0
end

-- Whether a ticket is not passed over for one behind it: that of a fair request never is; that of a
-- turn is, if its session was not heard of lately: within 1.2 times the pause between two polls of
-- a session that waits for few locks.
local function is_lively(ticket, owner, life)
  return owner == session or string.sub(ticket, 42) ~= 'r' or tonumber(string.sub(life, 1, 16)) - tonumber(now) >= 1800000
end
