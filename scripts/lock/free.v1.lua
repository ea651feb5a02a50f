-- lock/free v1
-- Releases a lock whose key is as lock/enter wrote it: no queue can exist. Any number of times.
--
-- KEYS[1]  holder  string: see lock/enter v1
-- ARGV[1]  value  what lock/enter wrote: 'sb1l', stamp (16), ticket (42), '-', label
-- ARGV[2]  used  stamp of the last token that was used; '' for the last of its block
-- ARGV[3]  keep_ms  how long the floor of a free lock is kept
-- returns  1  released
--          0  nothing is done: the key has another value, or its write was refused
-- effects  writes KEYS[1]: the floor; publishes nothing
-- cost     O(1): GET, SET
local holder = KEYS[1]
local value, used, keep_ms = ARGV[1], ARGV[2], ARGV[3]
assert(string.sub(value, 1, 4) == 'sb1l' and string.sub(value, MARK_AT, MARK_AT) == '-', 'bad argument')

if redis.pcall('GET', holder) ~= value then
  return 0
end
local last = string.sub(value, STAMP_START, STAMP_END)
if #used ~= STAMP_LENGTH or string.find(used, '%D') then
  last = string.format('%016.0f', tonumber(last) + (TOKEN_BLOCK - 1))
elseif used > last then
  last = used
end
if redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)['err'] then
  return 0
end
return 1
