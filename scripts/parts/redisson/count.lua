-- redisson/count
-- How many of those permits are held. It asks for each: any may have ended and been removed, in any
-- order.
--
-- uses     timeouts
-- defines  count_held
local function count_held(ids)
  local there = 0
  for _, ends in ipairs(redis.call('ZMSCORE', timeouts, unpack(ids))) do
    there = there + (ends and 1 or 0)
  end
  return there
end
