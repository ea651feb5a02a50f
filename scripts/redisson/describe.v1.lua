-- redisson/describe v1
-- Tells who has a lock, as Redisson's RLock has it.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- returns  {0}   nobody has it
--          {1, kind, stamp, hold, label, ends_ms}  somebody:
--            r, or w where it is a lock to read and write; 16 zeros, since nobody wrote down when it was taken; the field, which is
--            hold and label in one; and when the key ends, in milliseconds since 1970 by the server's clock; -1 where it has no end
--          {-1}  the key is no lock's
--          an error  the server's refusal
-- effects  none
-- cost     O(1): HRANDFIELD, HGET and PEXPIRETIME
local lock = KEYS[1]

local field = redis.pcall('HRANDFIELD', lock)
if not field then
  return {0}
end
if type(field) == 'table' then
  if string.sub(field['err'], 1, 9) ~= 'WRONGTYPE' then
    return field
  end
  return {-1}
end
local kind = 'r'
if redis.call('HGET', lock, 'mode') then
  kind = 'w'
end
return {1, kind, '0000000000000000', field, field, redis.call('PEXPIRETIME', lock)}
