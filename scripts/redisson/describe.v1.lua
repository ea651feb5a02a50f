-- redisson/describe v1
-- Returns the holder of a lock, as Redisson's RLock has it.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- returns  {0}   no hold has it
--          {1, kind, stamp, hold, label, ends_ms}  r, or w if it is a read-write lock; 16 zeros,
--            since no field says when it was taken; the field of one holder, without :write, which
--            is hold and label in one; and when the key ends, in milliseconds since 1970 by the
--            server's clock; -1 if it has no end
--          {-2, kind}  the key is no lock's, or a read-write lock's without a holder, which
--            Redisson never leaves
--          an error  the server's refusal
-- effects  none
-- cost     O(1): HRANDFIELD, HGET and PEXPIRETIME
local lock = KEYS[1]

-- include key/ends

local fields = redis.pcall('HRANDFIELD', lock, '2')
if fields['err'] then
  if string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
    return fields
  end
  return {-2, '?'}
end
-- Of the fields of a read-write lock one is its mode, and no holder.
local field = fields[1] == 'mode' and fields[2] or fields[1]
if not field then
  return {0}
end
if field == 'mode' then
  return {-2, '?'}
end
field = string.match(field, '^(.*):write$') or field
local kind = 'r'
if redis.call('HGET', lock, 'mode') then
  kind = 'w'
end
return {1, kind, NO_STAMP, field, field, key_ends(lock)}
