-- holds/state
-- What the key of the holds says: the scores of its members that are no holds, and of own, the hold
-- that is asked about; and the floor of the tokens. other is the kind of another lock that has the
-- key, or '?' if it is not ours. is_is_lost says that it is missing while sessions wait, or waited
-- in the last ten minutes.
--
-- uses     heartbeats, holder, kind, may_create, own
-- defines  floor, has_room, is_lost, other, scores
local scores = redis.pcall('ZMSCORE', holder, kind, 'phase', 'used', 'capacity', 'kept', 'queue', own)
local floor, other, is_lost, has_room = ''
if scores['err'] then
  if string.sub(scores['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZMSCORE', holder, kind) -- refused: so is this, and all
  end
  -- A script that may create the key reads the value by a command that is refused if memory is
  -- full. It writes nothing: there is a value.
  local value = may_create and redis.pcall('SET', holder, 'sb1-0000000000000000', 'NX', 'GET')
  has_room = type(value) == 'string'
  if not has_room then
    value = redis.call('GET', holder)
  end
  if #value == STAMP_END and string.sub(value, 1, 4) == 'sb1-' then
    floor, scores = string.sub(value, 5), {}
  else
    other = string.match(value, '^sb1([^-])') or '?'
  end
elseif scores[1] then
  floor = string.format('%016.0f', 0 - scores[1]) -- minus 0 would be a text with a minus
elseif redis.call('EXISTS', holder, heartbeats) > 0 then
  is_lost = true
  if redis.call('EXISTS', holder) == 1 then
    other = '?'
  end
end
