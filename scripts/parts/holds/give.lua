-- Writes a hold down until then, with the next token: later than floor, the last one used, also where the clock was
-- set back. Further scores may follow. The key outlives all its holds by keep_ms.
local made = scores[1]
local function give(name, till, ...)
  if not made and floor ~= '' then
    redis.call('SET', holder, '') -- refused where memory is full, as what follows a DEL never is
    redis.call('DEL', holder)
  end
  if now > floor then
    floor = now
  else
    floor = string.format('%016.0f', tonumber(floor) + 1)
  end
  redis.call('ZADD', holder, '-' .. floor, kind, till, name, ...)
  local ms = string.format('%.0f', (tonumber(till) - tonumber(now)) / 1000 + keep_ms)
  if made then
    redis.call('PEXPIRE', holder, ms, 'GT')
    return
  end
  made = true
  if type(redis.pcall('PEXPIRE', holder, ms)) == 'table' then
    -- Who has no right to that leaves no hold without an end.
    redis.call('DEL', holder)
    redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', 3600000)
    redis.call('PEXPIRE', holder, ms)
  end
end
