-- holder/renew v1
-- Lengthens the life of many holds. It never creates a key, and touches those only that
-- still belong to the hold that is named beside them.
--
-- KEYS[n]  holder   string: 'sb1', kind (1), stamp (16), hold (41), ...
-- ARGV[n]  terms    a pair by key, at 2n-1 and 2n: hold (41 characters), ttl_ms (positive integer)
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -1 the server refused to say
-- effects  sets the TTL of the KEYS; writes no value, publishes nothing
-- cost     O(keys): GET and PEXPIRE each
local alive = {}
for n, holder in ipairs(KEYS) do
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local value = redis.pcall('GET', holder)
  alive[n] = 0
  if type(value) == 'string' then
    if string.sub(value, 21, 61) == ARGV[2 * n - 1] then
      alive[n] = redis.call('PEXPIRE', holder, ARGV[2 * n])
    end
  elseif value and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    alive[n] = -1
  end
end
return alive
