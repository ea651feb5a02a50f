-- queue/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as
-- texts.
--
-- uses     nothing
-- defines  now, time
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
