-- session/hello v1
-- Returns the server's time, whether the server is new enough for the other scripts, whether it
-- evicts keys, and whether it has sharded channels.
--
-- KEYS[1]  _any  a key of ours: it routes the call in a cluster, and is neither read nor written
-- returns  {1, now, limit, policy, sharded}  Redis 6.2 or newer, Valkey, or what behaves like them
--          {0, now}                          an older server
--          now is the server's time: 16 digits, microseconds since 1970; limit is its maxmemory in
--          bytes and policy its maxmemory-policy, both '' if INFO is denied or lacks them;
--          sharded is 1 if the server knows SPUBLISH, and 0 if it does not
-- effects  none
-- cost     O(1)
local _any = KEYS[1]

-- include queue/now

-- By pcall: the right to INFO is one that a user can do without.
local info = redis.pcall('INFO', 'memory')
local limit, policy = '', ''
if type(info) == 'string' then
  limit = string.match(info, 'maxmemory:(%d+)') or ''
  policy = string.match(info, 'maxmemory_policy:([%w-]+)') or ''
end

-- include session/lacks

-- REDIS_VERSION_NUM came with 7.0, as SPUBLISH did. What lacks it is asked for ZMSCORE, which came
-- with 6.2. An embedded server may lack either of the two commands alone.
if redis.REDIS_VERSION_NUM then
  return {1, now, limit, policy, 1}
end
if lacks('ZMSCORE') then
  return {0, now}
end
return {1, now, limit, policy, lacks('SPUBLISH') and 0 or 1}
