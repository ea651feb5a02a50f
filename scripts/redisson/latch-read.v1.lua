-- redisson/latch-read v1
-- Returns the state of a latch, as Redisson's RCountDownLatch has it, as countdown/read does: all
-- rounds are one, with the stamp 1, and a latch without a key is open.
--
-- KEYS[1]  latch  text: see redisson/latch-start v1
-- ARGV[1]  fence  '' or a number to publish if the latch is not open: a listener that gets a 0
--          behind it knows that it has opened since
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- returns  {1, value, past, left}  as countdown/read has it
--          {-2}                    the key is not a latch's
-- effects  publishes fence
-- cost     O(1): GET, and the message
local latch = KEYS[1]
local fence, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include redisson/notify

local count = redis.call('GET', latch)
if count and not string.match(count, '^%-?%d+$') then
  return {-2}
end
local state, past, left = 'o', '', tonumber(count or 0)
if left > 0 then
  state = 'c'
  if fence ~= '' then
    notify(verb, channel, fence)
  end
end
local value = 'sb1' .. '0000000000000001' .. state .. string.rep('-', NONCE_LENGTH) .. string.rep('0', ROUND_END - NONCE_END)
return {1, value, past, left}
