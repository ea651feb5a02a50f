-- rwlock/may-share v1
-- Asks whether a reader that has the lock may share it with further readers of its session: not
-- while a writer waits whose session is alive.
--
-- KEYS[1]  holder  sorted set: see rwlock/enter v1
-- KEYS[2]  queue  sorted set: see rwlock/enter v1
-- KEYS[3]  _readers  not used: readers do not wait for each other
-- KEYS[4]  heartbeats  hash: see rwlock/enter v1
-- ARGV[1]  hold  its id (41), and the label of its session
-- returns  0  it may not: a writer waits, or it has the lock no more
--          1  it may
-- effects  none but on tickets of dead sessions
-- cost     O(log n): TIME, ZSCORE, ZRANGE; HGET if a writer waits
local holder, queue, _readers, heartbeats = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local hold = ARGV[1]

-- include queue/search

-- pcall: another kind of lock may have the key since.
local till = redis.pcall('ZSCORE', holder, hold)
if type(till) ~= 'string' or tonumber(till) <= tonumber(now) or search(queue, 'from')() or more == 1 then
  return 0
end
return 1
