-- lock/free v1
-- Releases a lock that has this ticket and no mark: no queue can exist. Any number of times.
--
-- KEYS[1]  holder  string: see lock/enter v1
-- ARGV[1]  unmarked  ticket (42) and '-': what lock/enter wrote behind the stamp
-- ARGV[2]  keep_ms  how long the floor of a free lock is kept
-- ARGV[3]  used  stamp of the last token that was used; '' for the last of its block; left out if
--          it is the first one
-- returns  1  released
--          0  nothing is done: the key has another ticket, or a mark, or its write was refused
-- effects  writes KEYS[1]: the floor; publishes nothing
-- cost     O(1): GET, SET
local holder = KEYS[1]
local unmarked, keep_ms, used = ARGV[1], ARGV[2], ARGV[3]

local value = redis.pcall('GET', holder)
local is_hold = value and #value >= MARK_AT and string.sub(value, 1, 4) == 'sb1l'
if not is_hold or #unmarked ~= TICKET_LENGTH + 1 or string.sub(unmarked, -1) ~= '-' or string.find(value, unmarked, ID_START, true) ~= ID_START then
  return 0
end
local last = string.sub(value, STAMP_START, STAMP_END)
if used and (#used ~= STAMP_LENGTH or string.find(used, '%D')) then
  last = string.format('%016.0f', tonumber(last) + (TOKEN_BLOCK - 1))
elseif used and used > last then
  last = used
end
if redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)['err'] then
  return 0
end
return 1
