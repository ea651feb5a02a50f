-- redisson/permits
-- How many permits are free, false where nobody has said how many there are. foreign: a key is no
-- semaphore's.
--
-- uses     permits, timeouts
-- defines  free, foreign, out
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
