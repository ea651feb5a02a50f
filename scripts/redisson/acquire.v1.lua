-- redisson/acquire v1
-- Acquires a lock that is free, as Redisson's RLock has it. Sent again for the same hold it
-- lengthens that, and returns a later time: no caller had the tokens of the one before, lost with
-- its reply.
--
-- KEYS[1]  lock  hash: a field for the hold, of the value 1; see README.md
-- ARGV[1]  hold  56 characters, fresh for every attempt
-- ARGV[2]  ttl_ms  positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  _verb  not used: no message is sent
-- ARGV[5]  _channel  not used, like _verb
-- ARGV[6]  _waits  not used: every release sends a message
-- returns  {1, now}   acquired at the server's time now; 256 us of tokens from there on are the
--          hold's
--          {0, left_ms, now}  another hold has it, and its key expires in left_ms
--          {-1, now}  later than not_after
--          {-2, kind}  the name is in use by another kind of lock, or is no key of Redisson's ('?')
--          an error   the server's refusal
-- effects  writes KEYS[1]; publishes nothing
-- cost     O(1): TIME, HLEN, HSET, PEXPIRE; held: HLEN, HGET twice, PTTL
local lock = KEYS[1]
local hold, ttl_ms, not_after, _verb, _channel, _waits = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
assert(string.find(ttl_ms, '^[1-9]%d*$') and tonumber(ttl_ms) < MAX_NUMBER, 'bad argument')

-- include queue/now

if now > not_after then
  return {-1, now}
end
local fields = redis.pcall('HLEN', lock)
if type(fields) == 'table' then
  if string.sub(fields['err'], 1, 9) == 'WRONGTYPE' then
    return {-2, '?'}
  end
  return fields
end
if fields > 0 and not redis.call('HGET', lock, hold) then
  if redis.call('HGET', lock, 'mode') then
    return {-2, 'w'}
  end
  return {0, redis.call('PTTL', lock), now}
end

-- include redisson/write-hold

local refusal = write_hold(lock, hold, ttl_ms)
if refusal then
  return refusal
end
return {1, now}
