-- setnx/renew v1
-- Lengthens the life of many holds, or asks whether they are there still, as SET with NX makes
-- them. It never creates a key, and changes only those that have the hold for a value.
--
-- KEYS[n]  lock  string: see setnx/acquire v1
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold (41), ttl_ms (positive integer; 0 asks only)
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -8 the server refused to
--          say, or ttl_ms is no number of 1 to 15 digits: nothing changed
-- effects  lengthens the life of the KEYS; publishes nothing
-- cost     O(keys): GET and PEXPIRE each
local alive = {}
for n, lock in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local value = redis.pcall('GET', lock)
  alive[n] = 0
  if not string.find(ttl_ms, '^%d+$') or #ttl_ms > MAX_DIGITS then
    alive[n] = -8 -- a life of -1 would delete the key
  elseif value == hold then
    alive[n] = 1
    if ttl_ms ~= '0' and type(redis.pcall('PEXPIRE', lock, ttl_ms)) == 'table' then
      alive[n] = -8
    end
  elseif type(value) == 'table' and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    alive[n] = -8
  end
end
return alive
