-- What the key of the holds says: the scores of its members that are no holds, and the floor of the tokens. other
-- is the kind of another lock that has the key, or '?' where it is none of ours.
local scores = redis.pcall('ZMSCORE', holder, kind, 'phase', 'used', 'capacity', 'kept')
local floor, other = ''
if scores['err'] then
  if string.sub(scores['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZMSCORE', holder, kind) -- refused: so is this, and all
  end
  local value = redis.call('GET', holder)
  if #value == 20 and string.sub(value, 1, 4) == 'sb1-' then
    floor, scores = string.sub(value, 5), {}
  else
    other = string.match(value, '^sb1([^-])') or '?'
  end
elseif scores[1] then
  floor = string.format('%016.0f', 0 - scores[1]) -- minus 0 would be a text with a minus
elseif redis.call('EXISTS', holder) == 1 then
  other = '?'
end
