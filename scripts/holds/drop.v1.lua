-- holds/drop v1
-- Ends a hold without reading the queue. It has one key, so that it works while the slot is moved
-- to another node of a cluster. The next poll of a waiter grants what is free then.
--
-- KEYS[1]  holder  sorted set: hold -> when it ends
-- ARGV[1]  hold  its ticket and label
-- returns  0  this hold has it no more
--          1  ended
-- effects  writes KEYS[1]; publishes nothing
-- cost     O(log n): TIME, ZSCORE, PEXPIRE, ZADD
local holder = KEYS[1]
local hold = ARGV[1]

-- include key/lengthen

local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- pcall: if another kind of lock has the key, or none has it, the hold is gone.
local till = redis.pcall('ZSCORE', holder, hold)
if type(till) == 'table' and string.sub(till['err'], 1, 9) ~= 'WRONGTYPE' then
  redis.call('ZSCORE', holder, hold) -- refused: so is this
end
if type(till) ~= 'string' or tonumber(till) <= tonumber(now) then
  return 0
end
-- First what takes no memory: what follows is then not refused if memory is full.
lengthen_key(holder, GRACE_MS)
redis.call('ZADD', holder, 'XX', now, hold)
return 1
