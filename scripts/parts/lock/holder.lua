-- include lock/value
-- lock/holder
-- What the holder key says: the stamp of the hold, or the floor if there is no hold; the ticket
-- that holds, and whether a queue may exist. other is the kind of another lock, or '?' if the key
-- is no lock's. The floor of a key that was lost is the lowest stamp.
--
-- uses     holder, value
-- defines  floor, hold, is_marked, other
local floor, hold, is_marked, other = NO_STAMP, '', false, nil
if type(value) == 'string' then
  local kind = string.sub(value, 1, 4)
  if kind == 'sb1l' and #value >= MARK_AT and #value <= MARK_AT + MAX_TAIL then
    floor, hold, is_marked = string.sub(value, STAMP_START, STAMP_END), string.sub(value, ID_START, MODE_AT), string.sub(value, MARK_AT, MARK_AT) == 'q'
    if string.sub(hold, TICKET_LENGTH) == '-' then
      hold = ''
    end
  elseif kind == 'sb1-' and #value == STAMP_END then
    floor = string.sub(value, STAMP_START, STAMP_END)
  else
    other = '?'
    if string.sub(kind, 1, 3) == 'sb1' and #kind == 4 and kind ~= 'sb1l' and kind ~= 'sb1-' then
      other = string.sub(kind, 4)
    end
  end
elseif value then
  -- A lock that several may hold is a sorted set: see rwlock/enter v1.
  if type(redis.pcall('ZSCORE', holder, 'sb1w')) ~= 'string' then
    redis.call('GET', holder) -- refused: so is this, and all
  end
  other = 'w'
end
