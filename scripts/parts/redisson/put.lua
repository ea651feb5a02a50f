-- redisson/put
-- Writes permits that are held until then, in place of as many free ones.
--
-- uses     permits, timeouts
-- defines  put
local function put(ids, ends)
  local members = {}
  for n, id in ipairs(ids) do
    members[2 * n - 1], members[2 * n] = ends, id
  end
  redis.call('ZADD', timeouts, unpack(members))
  -- As Java does: if the number of free permits has an end, so have those that are held.
  local ttl_ms = redis.call('PTTL', permits)
  if ttl_ms > 0 then
    redis.call('PEXPIRE', timeouts, ttl_ms)
  end
end
