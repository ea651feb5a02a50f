-- include holds/write
-- include key/lengthen
-- include queue/now
-- holds/lengthen
-- Makes a hold that is there last until then, if it does not last longer. The key first: it takes
-- no memory, and what comes after it is not refused if memory is full.
--
-- uses     after_ms, holder, lengthen_key, note_life, now
-- defines  lengthen
local function lengthen(hold, till)
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / US_PER_MS + after_ms)
  lengthen_key(holder, ms)
  redis.call('ZADD', holder, 'XX', 'GT', till, hold)
  note_life()
end
