-- include lock/holder
-- lock/left
-- For how long the hold lasts, in microseconds: for the life of its key, which is 15 seconds longer
-- if it is marked. Only a marked key can outlive its hold. A key whose end was taken away has a
-- hold without an end.
--
-- uses     holder
-- defines  ttl, left
local ttl, left = 0, 0
if hold ~= '' then
  ttl = redis.call('PTTL', holder)
  if ttl < 0 then
    left = 15000000
  elseif marked then
    left = math.max(ttl - 15000, 0) * 1000
  else
    left = math.max(ttl, 1) * 1000
  end
end
