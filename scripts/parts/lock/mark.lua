-- include lock/time-left
-- lock/mark
-- Marks the key of a hold: a queue may exist. The key lives 15 seconds longer from here on. A
-- sender without the right to that changes nothing.
--
-- uses     holder
-- defines  mark
local function mark()
  redis.call('SETRANGE', holder, 62, 'q')
  if ttl_ms >= 0 and type(redis.pcall('PEXPIRE', holder, ttl_ms + 15000)) == 'table' then
    redis.call('SETRANGE', holder, 62, '-')
    redis.call('PEXPIRE', holder, ttl_ms + 15000) -- refused: so is this, and all
  end
end
