-- countdown/read v1
-- Returns the state of a latch, and keeps its key.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- returns  {1, value, past, left}  both fields, and how many ids more open the round, 0 if it
--          does not count
--          {0}                     there is no key
--          {-2}                    the key is no latch's
-- effects  lengthens the life of KEYS[1] when a sixtieth of its life is over; publishes nothing
-- cost     O(1): HGET twice, HLEN, PTTL; PEXPIRE at times
local latch = KEYS[1]

-- include countdown/round
if is_foreign then
  return {-2}
end
if not value then
  return {0}
end

local left = 0
if state == 'c' then
  left = tonumber(string.sub(value, SINCE_END + 1, TOTAL_END)) - redis.call('HLEN', latch) + fields
end
-- A waiter polls each second, and should not write each second. What is not written is missing from
-- the key's life: a sixtieth of it.
if redis.call('PTTL', latch) < ms - ms / WRITES_PER_LIFE then
  -- By pcall: a caller that may only read gets the reply all the same.
  redis.pcall('PEXPIRE', latch, ms)
end
return {1, value, past, left}
