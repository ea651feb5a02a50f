-- include lock/longest
-- include lock/time-left
-- lock/lengthen
-- Lengthens the hold of the holder key to ms from now. It is never made shorter. Returns how long
-- it lasts.
--
-- uses     holder, is_marked, left_us, note_life, ttl_ms, value
-- defines  lengthen
local function lengthen(ms)
  local ends = is_marked and ms + GRACE_MS or ms
  if ttl_ms >= 0 and ttl_ms < ends then
    redis.call('PEXPIRE', holder, ends)
    ttl_ms = ends
  end
  note_life(holder, ms, value)
  return math.max(left_us, ms * US_PER_MS)
end
