-- redisson/permit-release v1
-- Releases the permits of a hold, as Redisson's RPermitExpirableSemaphore has them: those that it
-- still has, once.
--
-- KEYS[1]  permits  text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  hold  12 bytes, and 10 digits: how many permits
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- returns  {1, now}  it had all of them; now is the server's time
--          {0, now}  it had not; those that it had are released
-- effects  writes KEYS, unless the count of free permits is refused; publishes how many are free
-- cost     O(n log permits): TIME, GET, ZCARD, ZMSCORE, ZREM, INCRBY, and the message
local permits, timeouts = KEYS[1], KEYS[2]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include redisson/permits
-- include redisson/ids
-- include redisson/release-permits

if is_foreign or held == 0 then
  return {0, now}
end
local ids = ids_of(hold)
if release_permits(ids) < #ids then
  return {0, now}
end
return {1, now}
