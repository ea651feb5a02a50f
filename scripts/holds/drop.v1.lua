-- holds/drop v1
-- Ends a hold without looking at the line: one key, so that it goes on while the slot is moved to
-- another node of a cluster. It is over for everybody at the next look, which lets in who may come
-- in.
--
-- KEYS[1]  holder  sorted set: hold -> when it ends
-- ARGV[1]  hold  its ticket and label
-- returns  0  this hold has it no more
--          1  given back
-- effects  writes KEYS[1]; publishes nothing
-- cost     O(log n): TIME, ZSCORE, PEXPIRE, ZADD
local holder = KEYS[1]
local hold = ARGV[1]

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- pcall: where another kind of lock has the key, or nobody has a lock of the name, the hold has it
-- no more.
local till = redis.pcall('ZSCORE', holder, hold)
if type(till) == 'table' and string.sub(till['err'], 1, 9) ~= 'WRONGTYPE' then
  redis.call('ZSCORE', holder, hold) -- refused: so is this
end
if type(till) ~= 'string' or tonumber(till) <= tonumber(now) then
  return 0
end
-- First what takes no memory: what follows is then not refused where that is full.
redis.call('PEXPIRE', holder, 15000, 'GT')
redis.call('ZADD', holder, 'XX', now, hold)
return 1
