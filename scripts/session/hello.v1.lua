-- session/hello v1
-- Returns the server's time, whether the server is new enough for the other scripts, whether it
-- evicts keys, and whether it has sharded channels.
--
-- KEYS[1]  any  a key of ours: it routes the call in a cluster, and is never written
-- returns  {1, now, limit, policy, sharded}  Redis 7.0 or newer, Valkey 7.2 or newer, or what
--          behaves like them
--          {0, now}                          an older server
--          now is the server's time: 16 digits, microseconds since 1970; limit is its maxmemory in
--          bytes and policy its maxmemory-policy, both '' if INFO is denied or lacks them;
--          sharded is 1 if the server knows SPUBLISH, and 0 if it does not
-- effects  none
-- cost     O(1)
local any = KEYS[1]

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

-- By pcall: the right to INFO is one that a user can do without.
local info = redis.pcall('INFO', 'memory')
local limit, policy = '', ''
if type(info) == 'string' then
  limit = string.match(info, 'maxmemory:(%d+)') or ''
  policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
end

-- REDIS_VERSION_NUM came with 7.0. What lacks it without being old (an embedded server)
-- still knows PEXPIRETIME, which came with 7.0 as well.
if redis.REDIS_VERSION_NUM then
  return {1, now, limit, policy, 1}
end
local probe = redis.pcall('PEXPIRETIME', any)
if type(probe) == 'table' and probe['err'] then
  return {0, now}
end

-- SPUBLISH came with 7.0 too, and may be lacking all the same. Without arguments it does nothing.
probe = redis.pcall('SPUBLISH')
local sharded = 1
if type(probe) == 'table' and string.find(string.lower(probe['err'] or ''), 'unknown', 1, true) then
  sharded = 0
end
return {1, now, limit, policy, sharded}
