-- key/ends
-- When a key ends, in milliseconds since 1970 by the server's clock: -1 if it has no end, and -2 if
-- there is no key. PEXPIRETIME came with Redis 7.0, as REDIS_VERSION_NUM did. An older server adds
-- what is left to its time, and may be a millisecond early.
--
-- uses     nothing
-- defines  key_ends
local function key_ends(key)
  if redis.REDIS_VERSION_NUM then
    return redis.call('PEXPIRETIME', key)
  end
  local time, left_ms = redis.call('TIME'), redis.call('PTTL', key)
  if left_ms < 0 then
    return left_ms
  end
  local now = time[1] .. string.sub('00000' .. time[2], -6)
  return tonumber(string.sub(now, 1, MS_DIGITS)) + left_ms
end
