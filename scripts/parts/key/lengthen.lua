-- key/lengthen
-- Lets a key live for ms from now, if it would end sooner. A key without an end keeps none; that
-- returns 0. PEXPIRE with GT came with Redis 7.0, as REDIS_VERSION_NUM did. An older server reads
-- what is left, and writes it again if that is more: after a write a script is not refused another
-- one if memory is full.
--
-- uses     nothing
-- defines  lengthen_key
local function lengthen_key(key, ms)
  if redis.REDIS_VERSION_NUM then
    return redis.call('PEXPIRE', key, ms, 'GT')
  end
  local left_ms = redis.call('PTTL', key)
  if left_ms < 0 then
    return 0
  end
  local life_ms = math.max(left_ms, tonumber(ms))
  return redis.call('PEXPIRE', key, life_ms)
end
