-- reentrant/withdraw v1
-- Takes back an acquire whose outcome its sender does not know.
--
-- KEYS[1]  holder   string: see reentrant/acquire v1
-- ARGV[1]  hold     41 characters
-- ARGV[2]  verb     PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen
-- ARGV[4]  keep_ms  how long the floor is kept
-- returns  {0, now}  this hold does not have the lock; now is the server's time, a stamp
--          {1, now}  it had, and gave it back
-- effects  writes KEYS[1]: the floor stays for keep_ms; publishes 8 characters of the session to channel where a mark stands
-- cost     O(1): TIME, GET, and DEL, SET, the message
local holder = KEYS[1]
local hold, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- The time tells the sender whether a copy of the acquire that is still on its way can
-- take effect after this: it cannot once its not-after is over.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 4) ~= 'sb1r' or string.sub(value, 21, 61) ~= hold then
  return {0, now}
end
local floor = string.format('%016.0f', tonumber(string.sub(value, 5, 20)) + 256)
redis.call('DEL', holder)
redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
if string.sub(value, 62, 83) ~= '----------------------' then
  redis.pcall(verb, channel, string.sub(hold, 1, 8))
end
return {1, now}
