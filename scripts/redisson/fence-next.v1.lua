-- redisson/fence-next v1
-- Goes on with a lock, as Redisson's RFencedLock has it, with the next number of its counter for a token: for another in the hold's process.
-- Sent again it answers a later one.
--
-- KEYS[1]  lock      hash: see redisson/acquire v1
-- KEYS[2]  token     string: see redisson/fence v1
-- ARGV[1]  hold      56 characters
-- ARGV[2]  ttl_ms    how long the key is to live from now on, a positive integer
-- ARGV[3]  _floor    not used: the counter has it
-- ARGV[4]  _verb     not used: nobody is told
-- ARGV[5]  _channel  not used: nobody is told
-- returns  {0}       this hold has the lock no more
--          {3, token}  it goes on, with that token and no other
--          an error  the server's refusal
-- effects  writes the KEYS; publishes nothing
-- cost     O(1): HGET, INCR, PEXPIRE
local lock, token = KEYS[1], KEYS[2]
local hold, ttl_ms, _floor, _verb, _channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local has = redis.pcall('HGET', lock, hold)
if type(has) == 'table' and string.sub(has['err'], 1, 9) ~= 'WRONGTYPE' then
  return has
end
if type(has) ~= 'string' then
  return {0}
end
local counted = redis.call('INCR', token)
redis.call('PEXPIRE', lock, ttl_ms)
return {3, counted}
