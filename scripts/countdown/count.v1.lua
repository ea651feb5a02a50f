-- countdown/count v1
-- Counts an id, once, and opens the round with the last one. Any number of times.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- ARGV[1]  round  stamp
-- ARGV[2]  id  not empty
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  on which waiters listen
-- returns  {1, left}         the id counts, and left more open the round: 0 is open, now or before
--          {0, value, past}  another round is the newest, or this one was reset: both fields of the
--            key, '' if there is no such field
--          {-2}              the key is no latch's
-- effects  writes KEYS[1], and makes an open one live on; publishes stamp, 'o' and nonce if it
--          opens the round
-- cost     O(1), whatever was counted: HGET twice, HLEN, HSET, PEXPIRE; the last one: HGET three
--          times, HSET and PEXPIRE twice, UNLINK, and the message
local latch = KEYS[1]
local round, id, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include countdown/round
if is_foreign then
  return {-2}
end

-- include countdown/finish

if stamp ~= round or state == 'x' then
  return {0, value or '', past}
end
if state == 'o' then
  redis.pcall('PEXPIRE', latch, ms)
  return {1, 0}
end

local left = tonumber(string.sub(value, SINCE_END + 1, TOTAL_END)) - redis.call('HLEN', latch) + fields
if left <= 1 and not redis.call('HGET', latch, ':' .. id) then
  finish('o')
  return {1, 0}
end
left = left - redis.call('HSET', latch, ':' .. id, '')
redis.call('PEXPIRE', latch, ms)
return {1, left}
