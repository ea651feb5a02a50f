-- redisson/permit-release v1
-- Gives the permits of a hold back, as Redisson's RPermitExpirableSemaphore has them: those that it has still, once.
--
-- KEYS[1]  permits   text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  hold     12 bytes, and 10 digits: how many permits
-- ARGV[2]  verb     PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  where waiters listen
-- returns  {1, now}  it had all of them; now is the server's time
--          {0, now}  it had not; those that it had are given back
-- effects  writes KEYS; publishes how many are free
-- cost     O(n log permits): TIME, GET, ZCARD, ZREM, INCRBY, and the message
local permits, timeouts = KEYS[1], KEYS[2]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

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

if foreign or out == 0 then
  return {0, now}
end
local ids = ids_of(hold)
local back = redis.call('ZREM', timeouts, unpack(ids))
-- Where the number was lost, who takes permits next says it anew.
if back > 0 and free then
  free = redis.call('INCRBY', permits, back)
  if free > 0 then
    tell(verb, channel, string.format('%.0f', free))
  end
end
if back < #ids then
  return {0, now}
end
return {1, now}
