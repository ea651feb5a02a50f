-- redisson/rwlock-poll v1
-- Checks whether readers may enter, as Redisson's RReadWriteLock has it, for a session whose
-- readers wait.
--
-- KEYS[n]  lock  hash: see redisson/rwlock-acquire v1; one of every lock that is checked
-- ARGV[1]  _waiter  not used: every release is published
-- returns  {left_ms, ...}  by key: until the key ends, -1 if it has no end, or -2 if trying
--          is worth it
-- effects  none
-- cost     O(keys): PTTL and HGET each
local _waiter = ARGV[1]

local left = {}
for n, lock in ipairs(KEYS) do
  left[n] = redis.call('PTTL', lock)
  -- pcall: if the key is not Redisson's, the try that follows returns that.
  if redis.pcall('HGET', lock, 'mode') ~= 'write' then
    left[n] = -2
  end
end
return left
