-- setnx/describe v1
-- Returns the holder of a lock, as SET with NX makes it.
--
-- KEYS[1]  lock  string: see setnx/acquire v1
-- returns  {0}   it is free
--          {1, kind, stamp, hold, label, ends_ms}  held: r; 16 zeros, since no key says since when;
--            the value; its first 64 bytes; and when the key ends, in milliseconds since 1970 by
--            the server's clock, or -1 if it has no end
--          {-2, kind}  the key is not a string ('?')
--          an error  the server's refusal
-- effects  none
-- cost     O(1): GET and PEXPIRETIME
local lock = KEYS[1]

-- include key/ends

local value = redis.pcall('GET', lock)
if not value then
  return {0}
end
if type(value) == 'table' then
  if string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  return {-2, '?'}
end
return {1, 'r', NO_STAMP, value, string.sub(value, 1, MAX_LABEL), key_ends(lock)}
