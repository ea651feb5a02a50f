-- redisson/permit-split v1
-- Gives part of a hold's permits back, as Redisson's RPermitExpirableSemaphore has them: a hold of fewer takes its place. Sent again
-- for the same new hold it does no more than lengthen that.
--
-- KEYS[1]  permits   text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  hold       the new one: 12 bytes, and 10 digits
-- ARGV[2]  ttl_ms     of the new hold
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  old        the hold that it is a part of
-- ARGV[5]  verb       PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[6]  channel    where waiters listen
-- ARGV[7]  _capacity  not used: there are as many as there were
-- ARGV[8]  _exact     not used
-- ARGV[9]  _summed    not used
-- returns  {1, now}           the new hold has its permits, at the server's time now
--          {0, left_ms, now}  neither hold has all its permits; those that either had are free. left_ms is -1
--          {-1, now}          later than not_after
--          {-2, kind}         a key is no semaphore's ('?')
-- effects  writes KEYS; publishes how many are free
-- cost     O(n log permits): TIME, GET, ZCARD, ZMSCORE, ZREM, ZADD, PTTL, INCRBY, and the message
local permits, timeouts = KEYS[1], KEYS[2]
local hold, ttl_ms, not_after, old, verb, channel, _capacity, _exact, _summed = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]

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
local ids, olds, left_ms = ids_of(hold), ids_of(old), -1
local ends = string.format('%.0f', string.sub(now, 1, 13) + ttl_ms)
-- A repeated call finds permits of its own. It must look for each of them: any may have ended and been taken out, in any order.
local there = 0
for _, score in ipairs(redis.call('ZMSCORE', timeouts, unpack(ids))) do
  if score then
    there = there + 1
  end
end
if there == #ids then
  put(ids, ends)
  return {1, now}
end
local back, done = redis.call('ZREM', timeouts, unpack(olds)), false
if there > 0 then
  back = back + redis.call('ZREM', timeouts, unpack(ids))
elseif back == #olds then
  put(ids, ends)
  back, done = back - #ids, true
end
if back > 0 and free then
  free = redis.call('INCRBY', permits, back)
  if free > 0 then
    tell(verb, channel, string.format('%.0f', free))
  end
end
if done then
  return {1, now}
end
return {0, left_ms, now}
