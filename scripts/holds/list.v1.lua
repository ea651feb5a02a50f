-- holds/list v1
-- Tells who has holds in a key that has several, in the order in which they end.
--
-- KEYS[1]  holder  sorted set: name of the hold -> when it ends
-- ARGV[1]  kind  what a key of this kind has as a member: sb1w or sb1s
-- ARGV[2]  from  how many are left out at the beginning
-- ARGV[3]  count  how many are told at most
-- returns  {floor, phase, name, till, ...}  the floor of the tokens and the phase, '' where there is none, and each hold with the stamp at which it ends
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  none
-- cost     O(log n + count): TIME, ZMSCORE, ZRANGE
local holder = KEYS[1]
local kind, from, count = ARGV[1], ARGV[2], ARGV[3]
local own, creates, lives = '', false, holder

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
local told = {}
told[1], told[2] = floor, scores[2] or ''
-- No set has no holds: there is nothing, or a lock that was given back.
local later = '(' .. now
local page = scores[1] and redis.call('ZRANGE', holder, later, '+inf', 'BYSCORE', 'LIMIT', from, count, 'WITHSCORES') or {}
for n = 1, #page, 2 do
  told[#told + 1], told[#told + 2] = page[n], string.format('%016.0f', page[n + 1])
end
return told
