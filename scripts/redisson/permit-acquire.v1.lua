-- redisson/permit-acquire v1
-- Takes permits that are free, all or none, as Redisson's RPermitExpirableSemaphore has them. Sent again for the same hold it
-- lengthens that; if some of the hold's permits are gone, it frees the others.
--
-- KEYS[1]  permits   text: how many are free, decimal
-- KEYS[2]  timeouts  sorted set: permit (16 bytes) -> the millisecond in which it ends
-- ARGV[1]  hold       12 bytes, fresh for every attempt, and 10 digits: how many permits
-- ARGV[2]  ttl_ms     positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  verb       PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[5]  channel    where waiters listen
-- ARGV[6]  _waits     not used: who waits has no place
-- ARGV[7]  capacity   how many permits there are, where nobody has said so
-- ARGV[8]  exact      1 refuses where there is another number
-- ARGV[9]  summed     1 where all who have permits stand in timeouts, so that it is known how many there are
-- returns  {1, now}          taken, at the server's time now
--          {0, left_ms, now}  there are too few; left_ms until the first of those that are out ends, -1 where none has an end
--          {-1, now}         later than not_after
--          {-2, kind}        a key is no semaphore's ('?')
--          {-3, all}         there are fewer than the hold wants, all together
--          {-4, all}         there are others than capacity, and exact is 1
--          an error          the server's refusal
-- effects  writes KEYS; publishes how many are free, where some came back
-- cost     O(n log permits): TIME, GET, ZCARD, ZADD, PTTL, INCRBY; ZMSCORE and ZRANGE if some are out; ZREM and the message
--          if some have ended
local permits, timeouts = KEYS[1], KEYS[2]
local hold, ttl_ms, not_after, verb, channel, _waits, capacity, exact, summed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part redisson/tell
-- Tells who listens to a channel, by each of so many commands with a blank between, and answers how many hear it as far as
-- this node knows. Whoever is not told looks, so a refusal changes nothing.
local function tell(verbs, channel, message)
  local heard = 0
  for verb in string.gmatch(verbs, '%S+') do
    local here = redis.pcall(verb, channel, message)
    if type(here) == 'number' then
      heard = heard + here
    end
  end
  return heard
end
-- end redisson/tell

-- part redisson/permits
-- How many permits are free, false where nobody has said how many there are. foreign: a key is no semaphore's.
local free, foreign = redis.pcall('GET', permits), false
local out = redis.pcall('ZCARD', timeouts)
for _, answer in ipairs({free, out}) do
  if type(answer) == 'table' then
    if string.sub(answer['err'], 1, 9) ~= 'WRONGTYPE' then
      redis.call('GET', permits) -- refused: so is this, and all
      redis.call('ZCARD', timeouts)
    end
    foreign = true
  end
end
if free and not foreign then
  foreign = not string.match(free, '^%-?%d+$')
  free = tonumber(free)
end
-- end redisson/permits

-- part redisson/ids
-- The permits of a hold, which says how many they are in 10 digits behind 12 bytes of its own: these, and a number of four
-- bytes for each.
local function ids_of(hold)
  local base, ids = string.sub(hold, 1, 12), {}
  for n = 1, tonumber(string.sub(hold, 13)) do
    ids[n] = base .. string.char(0, 0, math.floor(n / 256), n % 256)
  end
  return ids
end
-- end redisson/ids

-- part redisson/put
-- Writes permits down until then, in the place of as many free ones.
local function put(ids, ends)
  local members = {}
  for n, id in ipairs(ids) do
    members[2 * n - 1], members[2 * n] = ends, id
  end
  redis.call('ZADD', timeouts, unpack(members))
  -- As Java does: who has the number end has all of it end.
  local ttl_ms = redis.call('PTTL', permits)
  if ttl_ms > 0 then
    redis.call('PEXPIRE', timeouts, ttl_ms)
  end
end
-- end redisson/put

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
-- A repeated call finds permits of its own. It must look for each of them: any may have ended and been taken out, in any order.
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

-- What has ended comes back here, 100 at once: who finds too few comes again. What is written first is what takes memory,
-- so that none is taken where that is full.
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
  reply = {-3, all}
elseif summed == '1' and exact == '1' and all ~= tonumber(capacity) then
  reply = {-4, all}
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
