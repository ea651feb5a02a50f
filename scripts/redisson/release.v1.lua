-- redisson/release v1
-- Releases a lock that a hold still has, as Redisson's RLock has it, and notifies the waiters. It
-- also undoes an acquire of unknown outcome.
--
-- KEYS[1]  lock  hash: see redisson/acquire v1
-- KEYS[2]  _token  not used, and an RFencedLock's alone: the counter stays
-- ARGV[1]  hold  56 characters
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- returns  {0, now}  this hold does not have the lock; now is the server's time, a stamp
--          {1, now, listens}  it had, and released it; listens is 1 if a session does, as far as
--            this node knows, which may be the hold's own
--          an error  the server's refusal
-- effects  writes KEYS[1]; publishes 0 to channel
-- cost     O(1): TIME, HGET, DEL and the message
local lock, _token = KEYS[1], KEYS[2]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include redisson/notify

local has = redis.pcall('HGET', lock, hold)
if type(has) == 'table' and string.sub(has['err'], 1, 9) ~= 'WRONGTYPE' then
  return has
end
if type(has) ~= 'string' then
  return {0, now}
end
local gone = redis.pcall('DEL', lock)
if type(gone) == 'table' then
  return gone
end
local listens = math.min(notify(verb, channel, '0'), 1)
return {1, now, listens}
