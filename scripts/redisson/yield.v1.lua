-- redisson/yield v1
-- Gives a lock back, as Redisson's RLock has it, that was passed on inside one process for long. Nobody can tell whether others
-- wait, since the layout has no place for a mark: they get their chance.
--
-- KEYS[1]  lock     hash: see redisson/acquire v1
-- ARGV[1]  hold     56 characters
-- ARGV[2]  _ttl_ms  not used: it does not go on
-- ARGV[3]  _floor   not used: the key is gone
-- ARGV[4]  verb     PUBLISH or SPUBLISH
-- ARGV[5]  channel  where waiters listen
-- returns  {0}  this hold has the lock no more
--          {2}  given back, and whoever waits was told
-- effects  writes KEYS[1]; publishes 0 to channel
-- cost     O(1): HGET, DEL and the message
local lock = KEYS[1]
local hold, _ttl_ms, _floor, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

if not redis.call('HGET', lock, hold) then
  return {0}
end
redis.call('DEL', lock)
redis.pcall(verb, channel, '0')
return {2}
