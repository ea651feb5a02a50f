-- include lock/holder
-- lock/left
-- For how long the hold lasts, in microseconds: for the life of its key, which is 15 seconds longer
-- if it is marked. Only a marked key can outlive its hold. No lease is longer than a day: a key
-- that another program gave no end, or a later one, ends then.
--
-- uses     holder
-- defines  ttl, left
local ttl, left = 0, 0
if hold ~= '' then
  ttl = redis.call('PTTL', holder)
  if ttl < 0 or ttl > 86415000 then
    ttl = 86415000
    redis.pcall('PEXPIRE', holder, ttl)
  end
  if marked then
    left = math.max(ttl - 15000, 0) * 1000
  else
    left = math.max(ttl, 1) * 1000
  end
end
