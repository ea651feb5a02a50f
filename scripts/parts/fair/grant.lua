-- Writes down who has the lock, and until when. The key outlives the hold by 15 seconds, more than
-- there is between two looks of any waiter: another kind of lock is kept out while somebody queues.
local function hold_until(hold, stamp, till, who)
  local ms = math.floor((tonumber(till) - tonumber(now)) / 1000) + 15000
  redis.call('SET', holder, 'sb1f' .. stamp .. hold .. till .. '------' .. who, 'PX', ms)
end

-- The stamp of the next token: later than floor, the last one used, also where the clock was set back.
local function after(floor)
  if now > floor then
    return now
  end
  return string.format('%016.0f', tonumber(floor) + 1)
end

-- Gives the lock, which is free, to a hold that was the first in line: for the rest of its session's life, and the
-- message says which heartbeat paid for it; at least for a second, so that no place is lost for a few milliseconds.
local function grant(hold, life, floor)
  local stamp, owner, till = after(floor), string.sub(hold, 1, 22), string.sub(life, 1, 16)
  if tonumber(till) - tonumber(now) < 1000000 then
    till = string.format('%016.0f', tonumber(now) + 1000000)
  end
  hold_until(hold, stamp, till, string.sub(life, 37))
  if owner ~= session then -- who sent this is told by the reply
    redis.pcall(verb, channel .. owner, string.sub(hold, 23) .. stamp .. string.sub(life, 17, 36))
  end
  return stamp
end
