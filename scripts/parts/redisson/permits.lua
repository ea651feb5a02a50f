-- redisson/permits
-- How many permits are free, false if no key says how many there are, and how many are held.
-- is_foreign: a key is no semaphore's.
--
-- uses     permits, timeouts
-- defines  free, held, is_foreign
local free, is_foreign = redis.pcall('GET', permits), false
local held = redis.pcall('ZCARD', timeouts)
for _, value in ipairs({free, held}) do
  if type(value) == 'table' then
    if string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
      redis.call('GET', permits) -- refused: so is this, and all
      redis.call('ZCARD', timeouts)
    end
    is_foreign = true
  end
end
if free and not is_foreign then
  is_foreign = not string.match(free, '^%-?%d+$')
  free = tonumber(free)
end
