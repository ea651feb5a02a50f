-- lock/value
-- The value of the holder key; nil if there is none, and a table if it is no string.
--
-- uses     holder
-- defines  value
local value = redis.pcall('GET', holder)
