-- redisson/latch-count v1
-- Counts one down, as Redisson's RCountDownLatch has it, and opens the latch with the last. Sent
-- again it counts again.
--
-- KEYS[1]  latch  text: see redisson/latch-start v1
-- ARGV[1]  _round  not used: rounds have no names
-- ARGV[2]  _id  not used: ids are not kept
-- ARGV[3]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[4]  channel  on which waiters listen
-- returns  {1, left}         counted, and left more open it
--          {0, value, past}  there is nothing to count: a later round has opened, in the words of
--            countdown/read
--          {-2}              the key is not a latch's
-- effects  writes KEYS[1]; publishes 0 if it opens
-- cost     O(1): GET, INCRBY; the last one: DEL, and the message
local latch = KEYS[1]
local _round, _id, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include redisson/notify

local count = redis.call('GET', latch)
if not count then
  local past = '0000000000000001' .. 'o' .. string.rep('-', NONCE_LENGTH)
  local value = 'sb1' .. '0000000000000002' .. 'o' .. string.rep('-', NONCE_LENGTH) .. string.rep('0', ROUND_END - NONCE_END)
  return {0, value, past}
end
if not string.match(count, '^%-?%d+$') then
  return {-2}
end
if tonumber(count) > 1 then
  return {1, redis.call('INCRBY', latch, -1)}
end
-- The last one: DEL, which is not refused if memory is full.
redis.call('DEL', latch)
notify(verb, channel, '0')
return {1, 0}
