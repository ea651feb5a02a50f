-- fair/drop v1
-- Ends a hold without looking at the line: one key, so that it goes on while the slot is moved to
-- another node of a cluster. The next look hands the lock on.
--
-- KEYS[1]  holder  string: 'sb1', kind (1), stamp (16), hold (41), until (16), 6 dashes, label; see README.md
-- ARGV[1]  hold  41 characters
-- returns  0  this hold has the lock no more
--          1  given back
-- effects  writes KEYS[1], which says for 15 seconds that the lock is free for the line; publishes nothing
-- cost     O(1): GET, DEL, SET
local holder = KEYS[1]
local hold = ARGV[1]

-- part fair/holder
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
-- end fair/holder
if held ~= hold then
  return 0
end
redis.call('DEL', holder)
redis.pcall('SET', holder, 'sb1f' .. floor .. string.rep('-', 41) .. string.rep('0', 16) .. '------', 'PX', 15000)
return 1
