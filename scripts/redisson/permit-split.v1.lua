-- redisson/permit-split v1
-- Releases a part of a hold's permits, as Redisson's RPermitExpirableSemaphore has them: a hold of
-- fewer replaces it. Sent again for the same new hold it does no more than lengthen that.
--
-- KEYS[1]  permits  text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  hold  the new one: 12 bytes, and 10 digits
-- ARGV[2]  ttl_ms  of the new hold
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  old  the hold that it is a part of
-- ARGV[5]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[6]  channel  on which waiters listen
-- ARGV[7]  _capacity  not used: there are as many as there were
-- ARGV[8]  _exact  not used
-- ARGV[9]  _summed  not used
-- returns  {1, now}           the new hold has its permits, at the server's time now
--          {0, left_ms, now}  neither hold has all its permits, or the new one is no part; those
--            that either had are free. left_ms is -1
--          {-1, now}          later than not_after
--          {-2, kind}         a key is no semaphore's ('?')
-- effects  writes KEYS, unless the count of free permits is refused; publishes how many are free
-- cost     O(n log permits): TIME, GET, ZCARD, ZMSCORE, ZREM, ZADD, PTTL, INCRBY, and the message
local permits, timeouts = KEYS[1], KEYS[2]
local hold, ttl_ms, not_after, old, verb, channel, _capacity, _exact, _summed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
assert(string.find(ttl_ms, '^[1-9]%d*$') and tonumber(ttl_ms) < MAX_NUMBER, 'bad argument')

-- include queue/now
-- include redisson/permits
-- include redisson/ids
-- include redisson/count
-- include redisson/hold-permits
-- include redisson/release-permits

if now > not_after then
  return {-1, now}
end
if is_foreign then
  local kind = '?'
  return {-2, kind}
end
local ids, olds, left_ms = ids_of(hold), ids_of(old), -1
local ends = string.format('%.0f', string.sub(now, 1, MS_DIGITS) + ttl_ms)
local there = count_held(ids) -- a repeated call finds permits of its own
if there == #ids then
  hold_permits(ids, ends)
  return {1, now}
end
if there == 0 and #ids < #olds and count_held(olds) == #olds then
  release_permits({unpack(olds, #ids + 1)})
  hold_permits(ids, ends)
  redis.call('ZREM', timeouts, unpack(olds, 1, #ids))
  return {1, now}
end
for _, id in ipairs(ids) do
  olds[#olds + 1] = id
end
release_permits(olds)
return {0, left_ms, now}
