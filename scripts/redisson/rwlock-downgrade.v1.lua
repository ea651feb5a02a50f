-- redisson/rwlock-downgrade v1
-- Makes a writer's hold a reader's, as Redisson's RReadWriteLock has them, and tells the readers that wait. Sent again it finds a
-- reader.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  hold  56 characters
-- ARGV[2]  _session  not used: it is told as all are
-- ARGV[3]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[4]  channel  where waiters listen
-- returns  {0, now}  this hold has the lock no more; now is the server's time, a stamp
--          {1, now}  it reads
-- effects  writes KEYS[1] and the key of the hold; publishes 1 to channel
-- cost     O(1): TIME, HMGET, PTTL, SET, HSET, HDEL
local lock = KEYS[1]
local hold, _session, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part redisson/tell
-- Tells who listens to a channel, by each of so many commands with a blank between, and answers how many hear it as far as
-- this node knows. Whoever is not told looks, so a refusal changes nothing.
local function tell(verbs, channel, message)
  local heard = 0
  for verb in string.gmatch(verbs, '%S+') do
    local here = redis.pcall(verb, channel, message)
    if type(here) == 'number' then
      heard = heard + here
    end
  end
  return heard
end
-- end redisson/tell

-- part redisson/timeout
-- The key that says until when the n-th hold of a reader lasts, which Redisson keeps beside the hash: in its slot.
local function timeout_of(lock, field, n)
  local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return base .. ':' .. field .. ':rwlock_timeout:' .. string.format('%.0f', n)
end
-- end redisson/timeout

local writes = hold .. ':write'
local fields = redis.pcall('HMGET', lock, hold, writes)
if fields['err'] or not fields[1] and not fields[2] then
  return {0, now}
end
if fields[2] then
  local timeout, left_ms = timeout_of(lock, hold, 1), math.max(redis.call('PTTL', lock), 1)
  redis.call('SET', timeout, '1', 'PX', left_ms)
  redis.call('HSET', lock, 'mode', 'read', hold, '1')
  redis.call('HDEL', lock, writes)
  tell(verb, channel, '1')
end
return {1, now}
