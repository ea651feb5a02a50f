-- redisson/permit-available v1
-- Tells how many permits there are, as Redisson's RPermitExpirableSemaphore has them, and how many of them are out. Those that have
-- ended are free, though nobody has taken them out yet.
--
-- KEYS[1]  permits   text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- returns  {0, capacity, used}  capacity is -1 where nobody has said it
--          {-2, kind}           a key is no semaphore's ('?')
-- effects  none
-- cost     O(log permits): TIME, GET, ZCARD, ZCOUNT
local permits, timeouts = KEYS[1], KEYS[2]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part redisson/permits
-- How many permits are free, false where nobody has said how many there are. foreign: a key is no semaphore's.
local free, foreign = redis.pcall('GET', permits), false
local out = redis.pcall('ZCARD', timeouts)
for _, answer in ipairs({free, out}) do
  if type(answer) == 'table' then
    if string.sub(answer['err'], 1, 9) ~= 'WRONGTYPE' then
      redis.call('GET', permits) -- refused: so is this, and all
      redis.call('ZCARD', timeouts)
    end
    foreign = true
  end
end
if free and not foreign then
  foreign = not string.match(free, '^%-?%d+$')
  free = tonumber(free)
end
-- end redisson/permits

if foreign then
  local kind = '?'
  return {-2, kind}
end
local capacity = free and free + out or -1
local later = '(' .. string.sub(now, 1, 13)
local used = redis.call('ZCOUNT', timeouts, later, '+inf')
return {0, capacity, used}
