-- include queue/now
-- lock/grant
-- The stamp of the next hold: behind floor, also if the clock was set back.
--
-- uses     channel, holder, now, session, verb
-- defines  grant, next_stamp
local function next_stamp(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Grants the lock, which is free, to a ticket whose session is alive: for the rest of that life,
-- and for a second at least. The message names the heartbeat that paid for it. Returns the stamp,
-- and how long the hold lasts.
local function grant(ticket, life, floor)
  local stamp, owner = next_stamp(floor), string.sub(ticket, 1, SESSION_LENGTH)
  local ms = math.max(math.ceil((tonumber(string.sub(life, 1, LIFE_END)) - tonumber(now)) / US_PER_MS), MIN_GRANT_US / US_PER_MS)
  redis.call('SET', holder, 'sb1l' .. stamp .. ticket .. 'q' .. string.sub(life, LISTENING_AT + 1), 'PX', ms + GRACE_MS)
  if owner ~= session then -- the caller gets it in the reply
    redis.pcall(verb, channel .. owner, string.sub(ticket, SESSION_LENGTH + 1, ID_LENGTH) .. stamp .. string.sub(life, LIFE_END + 1, NUMBER_END))
  end
  return stamp, ms * US_PER_MS
end
