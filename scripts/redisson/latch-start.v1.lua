-- redisson/latch-start v1
-- Starts a count, as Redisson's RCountDownLatch has it. Sent again it may start another one: its
-- sender knows only that there is one.
--
-- KEYS[1]  latch  text: how many open it still, decimal; gone when it is open
-- ARGV[1]  _begun  not used: rounds have no names
-- ARGV[2]  total  how many open it
-- ARGV[3]  _keep_ms  not used: the key has no end
-- ARGV[4]  not_after  stamp; executed later, nothing is written
-- ARGV[5]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[6]  channel  on which waiters listen
-- returns  {1, stamp, now}  begun; stamp is that of all rounds
--          {0, now}   another one is running
--          {-1, now}  later than not_after
--          {-2}       the key is not a latch's
-- effects  writes KEYS[1]; publishes 1
-- cost     O(1): TIME, GET, SET, and the message
local latch = KEYS[1]
local _begun, total, _keep_ms, not_after, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
assert(string.find(total, '^%d+$') and tonumber(total) < MAX_NUMBER, 'bad argument')

-- include queue/now
-- include redisson/notify

if now > not_after then
  return {-1, now}
end
local value = redis.call('GET', latch)
if value and not string.match(value, '^%-?%d+$') then
  return {-2}
end
if value then
  return {0, now}
end
local stamp, count = '0000000000000001', string.format('%.0f', total)
redis.call('SET', latch, count)
notify(verb, channel, '1')
return {1, stamp, now}
