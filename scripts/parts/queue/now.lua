-- queue/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as
-- texts, so a time of another length is refused, and so is one before tokens count.
--
-- uses     nothing
-- defines  now, time
local time = redis.call('TIME')
if #time[1] ~= SECOND_DIGITS or time[1] < FIRST_SECOND then
  assert(false, 'the clock of the server has to show a year from 2025 to 2286')
end
local now = time[1] .. (#time[2] == MICRO_DIGITS and time[2] or string.sub('00000' .. time[2], -MICRO_DIGITS))
