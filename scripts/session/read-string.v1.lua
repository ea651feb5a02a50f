-- session/read-string v1
-- Returns the beginning of a string, and when its key ends: for lists of what is in use.
--
-- KEYS[1]  any  a key of ours, or of another program
-- ARGV[1]  count  how many bytes are returned at most
-- returns  {head, ends_ms}  the first bytes, '' without a key; and when the key ends, in
--            milliseconds since 1970 by the server's clock; below 0 if it has no end
--          an error  the server's refusal, WRONGTYPE if the key is no string
-- effects  none
-- cost     O(count): GETRANGE and PEXPIRETIME
local any = KEYS[1]
local count = ARGV[1]
assert(string.match(count, '^%d+$'), 'count')

-- include key/ends

local head = redis.pcall('GETRANGE', any, 0, count - 1)
if type(head) == 'table' then
  return head
end
return {head, key_ends(any)}
