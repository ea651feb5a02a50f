-- include lock/holder
-- include lock/longest
-- lock/time-left
-- For how long the hold lasts, in microseconds: for the life of its key, which is 15 seconds longer
-- if it is marked. Only a marked key can outlive its hold. A key that another program gave no end,
-- or that ends too late since the server's clock was set back, ends after its hold's longest life.
--
-- uses     hold, holder, is_marked, longest_ms, value
-- defines  left_us, ttl_ms
local ttl_ms, left_us = 0, 0
if hold ~= '' then
  ttl_ms = redis.call('PTTL', holder)
  local after_ms = is_marked and GRACE_MS or 0
  if ttl_ms < 0 or ttl_ms > NOTED_LIFE_MS + after_ms then
    local most_ms = longest_ms(value) + after_ms
    if ttl_ms < 0 or ttl_ms > most_ms then
      ttl_ms = most_ms
      redis.pcall('PEXPIRE', holder, ttl_ms)
    end
  end
  if is_marked then
    left_us = math.max(ttl_ms - GRACE_MS, 0) * US_PER_MS
  else
    left_us = math.max(ttl_ms, 1) * US_PER_MS
  end
end
