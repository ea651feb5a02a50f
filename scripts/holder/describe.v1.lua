-- holder/describe v1
-- Tells who has a lock, of whatever kind.
--
-- KEYS[1]  holder   string: see reentrant/acquire v1
-- returns  {0}   nobody has it
--          {1, kind, stamp, hold, label, ends_ms}  somebody:
--            the kind's letter, the first stamp of the hold's tokens, the hold, the label of its session,
--            and when the hold ends, in milliseconds since 1970 by the server's clock; -1 where its key has no end
--          {-1}  the key is no lock's
-- effects  none
-- cost     O(1): GET and PEXPIRETIME, or TIME
local holder = KEYS[1]

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 4) == 'sb1-' and #value == 20 then
  return {0}
end
local kind, stamp = string.sub(value, 4, 4), string.sub(value, 5, 20)
if string.sub(value, 1, 3) ~= 'sb1' or kind == '-' or #value < 83 or #value > 147 then
  return {-1}
end
local ends = redis.call('PEXPIRETIME', holder)
if kind == 'f' then
  -- Its key outlives the hold, which says itself when it ends.
  local time = redis.call('TIME')
  local now, till = time[1] .. string.sub('00000' .. time[2], -6), string.sub(value, 62, 77)
  if till <= now then
    return {0}
  end
  ends = math.floor((tonumber(till) or 0) / 1000)
end
return {1, kind, stamp, string.sub(value, 21, 61), string.sub(value, 84), ends}
