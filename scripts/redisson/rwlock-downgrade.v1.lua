-- redisson/rwlock-downgrade v1
-- Makes a writer's hold a reader's, as Redisson's RReadWriteLock has them, and notifies the readers
-- that wait. Sent again it finds a reader.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  hold  56 characters
-- ARGV[2]  _session  not used: it gets the message as all do
-- ARGV[3]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[4]  channel  on which waiters listen
-- returns  {0, now}  this hold has the lock no more; now is the server's time, a stamp
--          {1, now}  it reads
-- effects  writes KEYS[1] and the key of the hold; publishes 1 to channel
-- cost     O(1): TIME, HMGET, PTTL, SET, HSET, HDEL
local lock = KEYS[1]
local hold, _session, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include queue/now
-- include redisson/notify
-- include redisson/timeout

local writes = hold .. ':write'
local fields = redis.pcall('HMGET', lock, hold, writes)
if fields['err'] or not fields[1] and not fields[2] then
  return {0, now}
end
if fields[2] then
  local timeout, left_ms = timeout_key(lock, hold, 1), math.max(redis.call('PTTL', lock), 1)
  redis.call('SET', timeout, '1', 'PX', left_ms)
  redis.call('HSET', lock, 'mode', 'read', hold, '1')
  redis.call('HDEL', lock, writes)
  notify(verb, channel, '1')
end
return {1, now}
