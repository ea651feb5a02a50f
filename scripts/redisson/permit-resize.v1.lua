-- redisson/permit-resize v1
-- Sets how many permits there are, as Redisson's RPermitExpirableSemaphore has them. Fewer end no
-- hold: the number of free ones may be below 0 until enough are released.
--
-- KEYS[1]  permits  text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  capacity  how many there are to be
-- ARGV[2]  not_after  stamp; executed later, nothing is written
-- ARGV[3]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[4]  channel  on which waiters listen
-- returns  {1, now}    done; now is the server's time
--          {-1, now}   later than not_after
--          {-2, kind}  a key is no semaphore's ('?')
-- effects  writes KEYS[1]; publishes how many are free
-- cost     O(1): TIME, GET, ZCARD, INCRBY or SET, and the message
local permits, timeouts = KEYS[1], KEYS[2]
local capacity, not_after, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(string.find(capacity, '^%d+$') and tonumber(capacity) < MAX_NUMBER, 'bad argument')

-- include queue/now
-- include redisson/notify
-- include redisson/permits

if now > not_after then
  return {-1, now}
end
if is_foreign then
  local kind = '?'
  return {-2, kind}
end
-- A permit that has ended is held until an acquire removes it.
local more = capacity - held - (free or 0)
if not free then
  free = more
  redis.call('SET', permits, string.format('%.0f', free))
elseif more ~= 0 then
  free = redis.call('INCRBY', permits, string.format('%.0f', more))
end
if more ~= 0 and free > 0 then
  notify(verb, channel, string.format('%.0f', free))
end
return {1, now}
