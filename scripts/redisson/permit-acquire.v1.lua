-- redisson/permit-acquire v1
-- Takes permits that are free, all or none, as Redisson's RPermitExpirableSemaphore has them. Sent
-- again for the same hold it lengthens that; if some of the hold's permits are gone, it frees the
-- others.
--
-- KEYS[1]  permits   text: how many are free, decimal
-- KEYS[2]  timeouts  sorted set: permit (16 bytes) -> the millisecond in which it ends
-- ARGV[1]  hold       12 bytes, fresh for every attempt, and 10 digits: how many permits
-- ARGV[2]  ttl_ms     positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  verb       PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[5]  channel    on which waiters listen
-- ARGV[6]  _waits     not used: who waits has no place
-- ARGV[7]  capacity   how many permits there are, if the key does not say
-- ARGV[8]  exact      1 refuses if there is another number
-- ARGV[9]  summed     1 where all who have permits stand in timeouts, so that it is known how many
--          there are
-- returns  {1, now}          taken, at the server's time now
--          {0, left_ms, now}  there are too few; left_ms until the first of those that are out
--            ends, -1 if none has an end
--          {-1, now}         later than not_after
--          {-2, kind}        a key is no semaphore's ('?')
--          {-4, all}         there are fewer than the hold wants, all together
--          {-5, all}         there are others than capacity, and exact is 1
--          an error          the server's refusal
-- effects  writes KEYS; publishes how many are free, where some came back
-- cost     O(n log permits): TIME, GET, ZCARD, ZADD, PTTL, INCRBY; ZMSCORE and ZRANGE if some are
--          out; ZREM and the message if some have ended
local permits, timeouts = KEYS[1], KEYS[2]
local hold, ttl_ms, not_after, verb, channel, _waits, capacity, exact, summed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
assert(string.find(ttl_ms .. ' ' .. capacity, '^[1-9]%d* %d+$') and ttl_ms + capacity < 1e15, 'not a number')

-- include line/now
-- include redisson/tell
-- include redisson/permits
-- include redisson/ids
-- include redisson/put

if now > not_after then
  return {-1, now}
end
if foreign then
  local kind = '?'
  return {-2, kind}
end

local ids = ids_of(hold)
local now_ms = string.sub(now, 1, 13)
local ends = string.format('%.0f', now_ms + ttl_ms)
-- A repeated call finds permits of its own. It must look for each of them: any may have ended and
-- been taken out, in any order.
local there = 0
for _, score in ipairs(out > 0 and redis.call('ZMSCORE', timeouts, unpack(ids)) or {}) do
  if score then
    there = there + 1
  end
end
if there == #ids then
  put(ids, ends)
  return {1, now}
end
if there > 0 then
  -- A hold that lost some of its permits is over: the others become free.
  local left_ms = 0
  local back = redis.call('ZREM', timeouts, unpack(ids))
  -- If the number was lost too, the next acquire sets it anew.
  if free and redis.call('INCRBY', permits, back) > 0 then
    tell(verb, channel, string.format('%.0f', free + back))
  end
  return {0, left_ms, now}
end

-- What has ended comes back here, 100 at once: who finds too few comes again. What is written first
-- is what takes memory, so that none is taken where that is full.
local ended = {}
if out > 0 then
  ended = redis.call('ZRANGE', timeouts, '-inf', now_ms, 'BYSCORE', 'LIMIT', 0, 100)
end
local changed = #ended > 0
if not free then
  -- As if Java had said so; less what is out, where the number alone was lost.
  free, changed = capacity - out, true
  redis.call('SET', permits, string.format('%.0f', free))
end
local all = free + out
local reply
if summed == '1' and #ids > all then
  reply = {-4, all}
elseif summed == '1' and exact == '1' and all ~= tonumber(capacity) then
  reply = {-5, all}
elseif free + #ended >= #ids then
  put(ids, ends)
  free = free - #ids
  reply = {1, now}
end
if #ended > 0 then
  redis.call('ZREM', timeouts, unpack(ended))
  free = free + #ended
end
local more = string.format('%.0f', free - (all - out))
if more ~= '0' then
  local written = redis.pcall('INCRBY', permits, more)
  if type(written) == 'table' then
    redis.call('ZREM', timeouts, unpack(ids))
    for _, id in ipairs(ended) do
      redis.call('ZADD', timeouts, now_ms, id) -- not counted: it is out still
    end
    return written
  end
end
if not reply then
  local first = redis.call('ZRANGE', timeouts, 0, 0, 'WITHSCORES')[2]
  local left_ms = first and tonumber(first) < 922337203685477 and math.max(0, tonumber(first) - now_ms) or -1
  reply = {0, left_ms, now}
end
if changed and free > 0 then
  tell(verb, channel, string.format('%.0f', free))
end
return reply
