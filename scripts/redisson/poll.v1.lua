-- redisson/poll v1
-- Checks whether locks are free, as Redisson's RLock has them, for a session that waits for them.
--
-- KEYS[n]  lock  hash: see redisson/acquire v1; one of every lock that is checked
-- ARGV[1]  _waiter  not used: every release is published
-- returns  {left_ms, ...}  by key: until the key ends, -1 if it has no end, or -2 if trying
--          is worth it
-- effects  none
-- cost     O(keys): PTTL each
local _waiter = ARGV[1]

local left = {}
for n, lock in ipairs(KEYS) do
  left[n] = redis.call('PTTL', lock)
end
return left
