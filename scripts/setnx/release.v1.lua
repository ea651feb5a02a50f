-- setnx/release v1
-- Releases a lock that a hold still has, as SET with NX makes it, and notifies the waiters of this
-- library. It also undoes an acquire of unknown outcome.
--
-- KEYS[1]  lock  string: see setnx/acquire v1
-- ARGV[1]  hold  41 characters
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  where waiters listen
-- returns  {0, now}  this hold does not have the lock; now is the server's time, a stamp
--          {1, now, listens}  it had, and released it; listens is 1 if a session does, as far as
--            this node knows, which may be the hold's own
--          an error  the server's refusal
-- effects  deletes KEYS[1]; publishes 0 to channel
-- cost     O(1): TIME, GET, DEL and the message
local lock = KEYS[1]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include redisson/notify

local value = redis.pcall('GET', lock)
if type(value) == 'table' and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
  return value
end
if value ~= hold then
  return {0, now}
end
local gone = redis.pcall('DEL', lock)
if type(gone) == 'table' then
  return gone
end
local listens = math.min(notify(verb, channel, '0'), 1)
return {1, now, listens}
