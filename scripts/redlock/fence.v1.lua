-- redlock/fence v1
-- Keeps the token that a hold was given, so that those of later holds are greater, whatever the
-- servers' clocks say and however the hold ends.
--
-- KEYS[1]  holder  string: see redlock/acquire v1
-- KEYS[2]  fence  string: a stamp that is not before the last token that was made to be ordered
-- ARGV[1]  id  of the hold, 41 characters
-- ARGV[2]  stamp  of the token
-- returns  0       this hold does not have it, and nothing was written
--          1       kept
-- effects  writes KEYS[2] for a day, and the stamp in KEYS[1]; publishes nothing
-- cost     O(1): GET twice, SET twice
local holder, fence = KEYS[1], KEYS[2]
local id, stamp = ARGV[1], ARGV[2]
assert(#stamp == STAMP_LENGTH and not string.find(stamp, '%D'), 'bad argument')

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 4) ~= 'sb1q' or string.sub(value, ID_START, ID_END) ~= id then
  return 0
end
local fenced = redis.call('GET', fence)
if not fenced or fenced < stamp then
  redis.call('SET', fence, stamp, 'PX', FENCE_TTL_MS)
end
redis.call('SET', holder, 'sb1q' .. stamp .. string.sub(value, ID_START), 'KEEPTTL')
return 1
