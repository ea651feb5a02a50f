-- include queue/now
-- lock/grant
-- The stamp of the next hold: behind floor, also if the clock was set back.
--
-- uses     channel, holder, session, verb
-- defines  next_stamp, grant
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
  local stamp, owner = next_stamp(floor), string.sub(ticket, 1, 22)
  local ms = math.max(math.ceil((tonumber(string.sub(life, 1, 16)) - tonumber(now)) / 1000), 1000)
  redis.call('SET', holder, 'sb1l' .. stamp .. ticket .. 'q' .. string.sub(life, 38), 'PX', ms + 15000)
  if owner ~= session then -- the caller gets it in the reply
    redis.pcall(verb, channel .. owner, string.sub(ticket, 23, 41) .. stamp .. string.sub(life, 17, 36))
  end
  return stamp, ms * 1000
end
