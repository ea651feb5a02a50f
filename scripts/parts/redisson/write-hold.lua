-- redisson/write-hold
-- Gives a lock that is free, or that the hold has, to a hold. Returns the server's refusal, or
-- nothing.
--
-- uses     nothing
-- defines  write_hold
local function write_hold(lock, hold, ttl_ms)
  local written = redis.pcall('HSET', lock, hold, '1')
  if type(written) == 'table' then
    return written
  end
  -- A key without an end would block the others for ever.
  local ends = redis.pcall('PEXPIRE', lock, ttl_ms)
  if type(ends) == 'table' then
    redis.pcall('DEL', lock)
    return ends
  end
end
