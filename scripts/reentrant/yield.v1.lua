-- reentrant/yield v1
-- Asks whether a hold that was passed on inside one process for long may go on: it may
-- while no other session waits, and gives the lock back otherwise.
--
-- KEYS[1]  holder   string: see reentrant/acquire v1
-- ARGV[1]  hold     41 characters
-- ARGV[2]  ttl_ms   positive integer
-- ARGV[3]  floor    stamp that is not before the last token that the hold used
-- ARGV[4]  verb     PUBLISH or SPUBLISH
-- ARGV[5]  channel  where waiters listen
-- ARGV[6]  keep_ms  how long the floor is kept, where it gives back
-- returns  {0}                  this hold has the lock no more
--          {1, stamp, us, now}  it goes on for ttl_ms more; us of tokens from stamp on are its own
--          {2}                  given back, and a waiter of another session was told
-- effects  writes KEYS[1]; publishes 8 characters of the session to channel when it gives back
-- cost     O(1): GET, then TIME and SET, or DEL, SET and the message
local holder = KEYS[1]
local hold, ttl_ms, floor, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 4) ~= 'sb1r' or string.sub(value, 21, 61) ~= hold then
  return {0}
end

local marked = string.sub(value, 62, 83)
if marked ~= '----------------------' and marked ~= string.sub(hold, 1, 22) then
  redis.call('DEL', holder)
  redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
  redis.pcall(verb, channel, string.sub(hold, 1, 8))
  return {2}
end

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- From the last token used, not from the end of the block: where the clock is behind, a block
-- is empty, and tokens must not run from the clock by one at each question.
local first, us = math.max(tonumber(now), tonumber(floor) + 1), 256
if first + us > tonumber(now) + 100000 then
  us = 0
end
-- The key says where a block would begin that ends with the hold's last token; see reentrant/acquire v1.
local stamp, begins = string.format('%016.0f', first), string.format('%016.0f', first + us - 256)
redis.call('SET', holder, 'sb1r' .. begins .. string.sub(value, 21), 'PX', ttl_ms)
return {1, stamp, us, now}
