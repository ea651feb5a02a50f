-- include lock/left
-- lock/lengthen
-- Lengthens the hold of the holder key to ms from now. It is never made shorter. Returns how long
-- it lasts.
--
-- uses     holder
-- defines  lengthen
local function lengthen(ms)
  local ends = marked and ms + 15000 or ms
  if ttl >= 0 and ttl < ends then
    redis.call('PEXPIRE', holder, ends)
    ttl = ends
  end
  return math.max(left, ms * 1000)
end
