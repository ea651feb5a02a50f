-- redisson/permit-available v1
-- Returns how many permits there are, as Redisson's RPermitExpirableSemaphore has them, and how
-- many of them are held. Those that have ended are free, also while the key still has them.
--
-- KEYS[1]  permits  text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- returns  {1, capacity, used}  capacity is -1 if the key does not say
--          {-2, kind}           a key is no semaphore's ('?')
-- effects  none
-- cost     O(log permits): TIME, GET, ZCARD, ZCOUNT
local permits, timeouts = KEYS[1], KEYS[2]

-- include queue/now
-- include redisson/permits

if is_foreign then
  local kind = '?'
  return {-2, kind}
end
local capacity = free and free + held or -1
local later = '(' .. string.sub(now, 1, MS_DIGITS)
local used = redis.call('ZCOUNT', timeouts, later, '+inf')
return {1, capacity, used}
