-- include holds/write
-- include queue/now
-- holds/bound
-- Holds that would last longer than any hold of the key was given end after that: their ends are
-- from before the server's clock was set back. A thousand at once; the next call has the others.
-- Servers write 100 seconds as 1e+8. tonumber of an embedded server reads no such text, a sum does.
--
-- uses     holder, made, now
-- defines  bound_holds
local function bound_holds()
  local last = made and redis.call('ZRANGE', holder, -1, -1, 'WITHSCORES')[2]
  if not last or last - tonumber(now) <= MAX_LIFE_US then
    return
  end
  local longest = redis.call('ZMSCORE', holder, 'longest')[1]
  local till = string.format('%.0f', tonumber(now) + math.max((longest or 0) + 0, MAX_LIFE_US))
  for _, hold in ipairs(redis.call('ZRANGE', holder, '(' .. till, '+inf', 'BYSCORE', 'LIMIT', 0, ENDED_PAGE)) do
    redis.call('ZADD', holder, 'XX', till, hold)
  end
end
