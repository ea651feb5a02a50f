-- redisson/hold-permits
-- Writes permits that are held until then, in place of as many free ones.
--
-- uses     permits, timeouts
-- defines  hold_permits
local function hold_permits(ids, ends)
  local ttl_ms = redis.call('PTTL', permits) -- before the first write, since it may be denied
  local members = {}
  for n, id in ipairs(ids) do
    members[2 * n - 1], members[2 * n] = ends, id
  end
  redis.call('ZADD', timeouts, unpack(members))
  if ttl_ms > 0 then
    -- As Java does: if the number of free permits has an end, so has the key of those that are
    -- held. Each of them ends all the same if that is refused.
    redis.pcall('PEXPIRE', timeouts, ttl_ms)
  end
end
