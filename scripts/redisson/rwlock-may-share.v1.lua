-- redisson/rwlock-may-share v1
-- Asks whether a reader that has a lock, as Redisson's RReadWriteLock has it, may share it with
-- further readers of its session. Redisson's readers join readers also while a writer waits.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  hold  56 characters
-- returns  0  it may not: it has the lock no more
--          1  it may
-- effects  none
-- cost     O(1): HGET
local lock = KEYS[1]
local hold = ARGV[1]

-- pcall: another kind of lock may have the key since.
if type(redis.pcall('HGET', lock, hold)) == 'string' then
  return 1
end
return 0
