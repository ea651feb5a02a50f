-- redisson/rwlock-acquire v1
-- Acquires a lock to read or to write, as Redisson's RReadWriteLock has it. Sent again for the same
-- hold it lengthens that.
--
-- KEYS[1]  lock  hash: mode, and a field for each hold; a key beside it for each hold that reads;
--          see README.md
-- ARGV[1]  hold  56 characters, fresh for every attempt
-- ARGV[2]  ttl_ms  positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  _verb  not used: no message is sent
-- ARGV[5]  _channel  not used: no message is sent
-- ARGV[6]  _waits  not used: no waiter has a position
-- ARGV[7]  side  r to read, w to write
-- returns  {1, now}   acquired, at the server's time now
--          {0, left_ms, now}  another hold has it, left_ms until its key ends
--          {-1, now}  later than not_after
--          {-2, kind}  the name is in use by another kind of lock, or is no key of Redisson's ('?')
--          an error   the server's refusal
-- effects  writes KEYS[1] and the key of the hold; publishes nothing
-- cost     O(1): TIME, HGET; SET, HSET, PTTL, PEXPIRE
local lock = KEYS[1]
local hold, ttl_ms, not_after, _verb, _channel, _waits, side = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]
assert(string.find(ttl_ms, '^[1-9]%d*$') and tonumber(ttl_ms) < MAX_NUMBER, 'bad argument')

-- include queue/now
-- include redisson/timeout

if now > not_after then
  return {-1, now}
end
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' then
  if string.sub(mode['err'], 1, 9) ~= 'WRONGTYPE' then
    return mode
  end
  return {-2, '?'}
end
if not mode and redis.call('EXISTS', lock) == 1 then
  return {-2, 'r'}
end

local field, wanted, life = hold, 'read', ttl_ms
if side == 'w' then
  field, wanted = hold .. ':write', 'write'
end
local left_ms = redis.call('PTTL', lock)
if mode and mode ~= wanted or mode == 'write' and not redis.call('HGET', lock, field) then
  return {0, left_ms, now}
end
if side == 'r' then
  local timeout = timeout_key(lock, hold, 1)
  redis.call('SET', timeout, '1', 'PX', ttl_ms)
  life = string.format('%.0f', math.max(tonumber(ttl_ms), left_ms))
end
redis.call('HSET', lock, 'mode', wanted, field, '1')
local ends = redis.pcall('PEXPIRE', lock, life)
if type(ends) == 'table' then
  -- A key without an end would block the others for ever.
  redis.pcall('HDEL', lock, field)
  if not mode then
    redis.pcall('DEL', lock)
  end
  return ends
end
return {1, now}
