-- What the holder key says: the stamp of the hold or the floor that it left, the hold, and until when. other is
-- the kind of another lock, or '?' where the key is none of ours. The floor of a key that is lost is the lowest stamp:
-- whatever is written with it can be read again.
local value = redis.pcall('GET', holder)
local kind = type(value) == 'string' and string.sub(value, 1, 4)
local floor, held, till, other = string.rep('0', 16), '', ''
if kind == 'sb1f' and #value >= 83 and #value <= 147 then
  floor, held, till = string.sub(value, 5, 20), string.sub(value, 21, 61), string.sub(value, 62, 77)
elseif kind == 'sb1-' and #value == 20 then
  floor = string.sub(value, 5, 20)
elseif kind then
  other = '?'
  if string.sub(kind, 1, 3) == 'sb1' and kind ~= 'sb1f' and kind ~= 'sb1-' then
    other = string.sub(kind, 4)
  end
elseif value then
  -- A lock that several may have is a sorted set: see rwlock/enter v1.
  if type(redis.pcall('ZSCORE', holder, 'sb1w')) ~= 'string' then
    redis.call('GET', holder) -- refused: so is this, and all
  end
  other = 'w'
end
