-- redisson/permit-acquire v1
-- Acquires permits that are free, all or none, as Redisson's RPermitExpirableSemaphore has them.
-- Sent again for the same hold it lengthens that; if some of the hold's permits are gone, it frees
-- the others.
--
-- KEYS[1]  permits  text: how many are free, decimal
-- KEYS[2]  timeouts  sorted set: permit (16 bytes) -> the millisecond in which it ends
-- ARGV[1]  hold  12 bytes, fresh for every attempt, and 10 digits: how many permits
-- ARGV[2]  ttl_ms  positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[5]  channel  on which waiters listen
-- ARGV[6]  _waits  not used: no waiter has a position
-- ARGV[7]  capacity  how many permits there are, if the key does not say
-- ARGV[8]  exact  1 refuses if there is another number
-- ARGV[9]  summed  1 if timeouts has all permits that are held, so that it is known how many there
--          are
-- returns  {1, now}          acquired, at the server's time now
--          {0, left_ms, now}  too few are free; left_ms until the first of those that are held
--            ends, -1 if there is no end
--          {-1, now}         later than not_after
--          {-2, kind}        a key is no semaphore's ('?')
--          {-4, all}         there are fewer permits than the hold wants
--          {-5, all}         there is another number of permits, and exact is 1
--          an error          the server's refusal
-- effects  writes KEYS; publishes how many are free, if some were released
-- cost     O(n log permits): TIME, GET, ZCARD, ZADD, PTTL, INCRBY; ZMSCORE and ZRANGE if some are
--          held; ZREM and the message if some have ended
local permits, timeouts = KEYS[1], KEYS[2]
local hold, ttl_ms, not_after, verb, channel, _waits, capacity, exact, summed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
assert(string.find(ttl_ms .. ' ' .. capacity, '^[1-9]%d* %d+$') and ttl_ms + capacity < MAX_NUMBER, 'bad argument')

-- include queue/now
-- include redisson/notify
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

local ids = ids_of(hold)
local now_ms = string.sub(now, 1, MS_DIGITS)
local ends = string.format('%.0f', now_ms + ttl_ms)
local there = held > 0 and count_held(ids) or 0 -- a repeated call finds permits of its own
if there == #ids then
  hold_permits(ids, ends)
  return {1, now}
end
if there > 0 then
  -- A hold that lost some of its permits is over: the others become free.
  local left_ms = 0
  release_permits(ids)
  return {0, left_ms, now}
end

-- Permits that have ended become free here, 100 at once: a caller that finds too few calls again.
-- What takes memory is written first, so that no permit is acquired if memory is full.
local ended = {}
if held > 0 then
  ended = redis.call('ZRANGE', timeouts, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, PERMITS_PAGE)
  if #ended > 0 then
    redis.call('ZREM', timeouts, '') -- removes nothing; before any write, since it may be denied
  end
end
local changed = #ended > 0
if not free then
  -- As Java writes it; less what is held, if the number alone was lost.
  free, changed = capacity - held, true
  redis.call('SET', permits, string.format('%.0f', free))
end
local all = free + held
local reply
if summed == '1' and #ids > all then
  reply = {-4, all}
elseif summed == '1' and exact == '1' and all ~= tonumber(capacity) then
  reply = {-5, all}
elseif free + #ended >= #ids then
  hold_permits(ids, ends)
  free = free - #ids
  reply = {1, now}
end
if #ended > 0 then
  redis.call('ZREM', timeouts, unpack(ended))
  free = free + #ended
end
local more = string.format('%.0f', free - (all - held))
if more ~= '0' then
  local written = redis.pcall('INCRBY', permits, more)
  if type(written) == 'table' then
    redis.call('ZREM', timeouts, unpack(ids))
    for _, id in ipairs(ended) do
      redis.call('ZADD', timeouts, now_ms, id) -- not counted: it is held still
    end
    return written
  end
end
if not reply then
  local first = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
  local left_ms = first and tonumber(first) < NEVER_MS and math.max(0, tonumber(first) - now_ms) or -1
  reply = {0, left_ms, now}
end
if changed and free > 0 then
  notify(verb, channel, string.format('%.0f', free))
end
return reply
