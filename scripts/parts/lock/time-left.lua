-- include lock/holder
-- lock/time-left
-- For how long the hold lasts, in microseconds: for the life of its key, which is 15 seconds longer
-- if it is marked. Only a marked key can outlive its hold. No lease is longer than a day: a key
-- that another program gave no end, or a later one, ends then.
--
-- uses     hold, holder, is_marked
-- defines  left_us, ttl_ms
local ttl_ms, left_us = 0, 0
if hold ~= '' then
  ttl_ms = redis.call('PTTL', holder)
  if ttl_ms < 0 or ttl_ms > MAX_LEASE_MS + GRACE_MS then
    ttl_ms = MAX_LEASE_MS + GRACE_MS
    redis.pcall('PEXPIRE', holder, ttl_ms)
  end
  if is_marked then
    left_us = math.max(ttl_ms - GRACE_MS, 0) * US_PER_MS
  else
    left_us = math.max(ttl_ms, 1) * US_PER_MS
  end
end
