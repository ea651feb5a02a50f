-- session/hello v1
-- Tells the server's time, and whether the server is new enough for the other scripts.
--
-- KEYS[1]  any      a key of ours: it routes the call in a cluster, and is never written
-- returns  {1, now}  Redis 7.0 or newer, Valkey 7.2 or newer, or what behaves like them
--          {0, now}  an older server
--          now is the server's time: 16 digits, microseconds since 1970
-- effects  none
-- cost     O(1)
local any = KEYS[1]

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

-- REDIS_VERSION_NUM came with 7.0. What lacks it without being old (an embedded server)
-- still knows PEXPIRETIME, which came with 7.0 as well.
if redis.REDIS_VERSION_NUM then
  return {1, now}
end
local probe = redis.pcall('PEXPIRETIME', any)
if type(probe) == 'table' and probe['err'] then
  return {0, now}
end
return {1, now}
