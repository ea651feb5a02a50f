-- semaphore/available v1
-- Tells how many permits there are, and how many of them are out. Those of holds that have ended are free, though
-- nobody has taken them out yet.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- returns  {0, capacity, used}  capacity is -1 where the key does not say
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  none
-- cost     O(log n), and the holds that have ended: TIME, ZMSCORE, ZRANGE; ZRANGE, ZRANK twice and ZRANGE for each thousand of them
local holder = KEYS[1]
local kind, own, creates, lives = 'sb1s', '', false, holder

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part holds/state
-- What the key of the holds says: the scores of its members that are no holds, and of own, the hold that is asked
-- about; and the floor of the tokens. other is the kind of another lock that has the key, or '?' where it is none of ours.
-- lost says that it is missing where sessions wait, or waited in the last ten minutes.
local scores = redis.pcall('ZMSCORE', holder, kind, 'phase', 'used', 'capacity', 'kept', 'queue', own)
local floor, other, lost, has_room = ''
if scores['err'] then
  if string.sub(scores['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZMSCORE', holder, kind) -- refused: so is this, and all
  end
  -- Whoever creates reads the value by a command that is refused if memory is full. It writes nothing: there is a value.
  local value = creates and redis.pcall('SET', holder, 'sb1-0000000000000000', 'NX', 'GET')
  has_room = type(value) == 'string'
  if not has_room then
    value = redis.call('GET', holder)
  end
  if #value == 20 and string.sub(value, 1, 4) == 'sb1-' then
    floor, scores = string.sub(value, 5), {}
  else
    other = string.match(value, '^sb1([^-])') or '?'
  end
elseif scores[1] then
  floor = string.format('%016.0f', 0 - scores[1]) -- minus 0 would be a text with a minus
elseif redis.call('EXISTS', holder, lives) > 0 then
  lost = true
  if redis.call('EXISTS', holder) == 1 then
    other = '?'
  end
end
-- end holds/state

if other then
  return {-2, other}
end
-- By rank: a page that is found by its rank costs no more behind a hundred thousand others.
local used = tonumber(scores[3] or 0)
local first = scores[1] and redis.call('ZRANGE', holder, '1000000000000000', now, 'BYSCORE', 'LIMIT', 0, 1)[1]
if first then
  local ended = redis.call('ZRANGE', holder, now, '1000000000000000', 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local last = redis.call('ZRANK', holder, ended)
  for from = redis.call('ZRANK', holder, first), last, 1000 do
    for _, name in ipairs(redis.call('ZRANGE', holder, from, math.min(from + 999, last))) do
      used = used - tonumber(string.sub(name, 42, 51))
    end
  end
end
return {0, tonumber(scores[4] or -1), used}
