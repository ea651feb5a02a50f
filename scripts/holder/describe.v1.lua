-- holder/describe v1
-- Returns the holder of a lock of any kind.
--
-- KEYS[1]  holder  string: see lock/enter v1 and redlock/acquire v1; or sorted set: see
--          rwlock/enter v1
-- returns  {0}   no session holds it
--          {1, kind, stamp, id, label, ends_ms}  of several holders the one whose hold ends last:
--            the kind's letter, which of kind l is the mode of the hold, the first stamp of the
--            hold's tokens, the hold, the label of its session, and when the hold ends, in
--            milliseconds since 1970 by the server's clock; -1 if its key has no end. If the kind
--            has several holders, the stamp is that of the last token that was given
--          {-2, kind}  the key is no lock's
--          an error  the server's refusal
-- effects  none
-- cost     O(1): GET and PEXPIRETIME, and PTTL if the key outlives its hold; O(log n) for several
--          holders: ZMSCORE, TIME, ZRANGE
local holder = KEYS[1]

-- include key/ends

local value = redis.pcall('GET', holder)
if type(value) == 'table' then
  if string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    return value
  end
  local scores = redis.pcall('ZMSCORE', holder, 'sb1w')
  if scores['err'] and string.sub(scores['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZMSCORE', holder, 'sb1w') -- refused: so is this, and all
  end
  local floor = scores[1]
  if not floor then
    return {-2, '?'}
  end
  local time = redis.call('TIME')
  local now = time[1] .. string.sub('00000' .. time[2], -6)
  local after = '(' .. now
  local last = redis.call('ZRANGE', holder, '+inf', after, 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  if not last[1] then
    return {0}
  end
  return {1, 'w', string.format('%016.0f', -floor), string.sub(last[1], 1, ID_LENGTH), string.sub(last[1], ID_LENGTH + 1), math.floor(last[2] / US_PER_MS)}
end
if not value or string.sub(value, 1, 4) == 'sb1-' and #value == STAMP_END then
  return {0}
end
local kind, stamp = string.sub(value, 4, 4), string.sub(value, STAMP_START, STAMP_END)
if string.sub(value, 1, 4) == 'sb1l' and #value >= MARK_AT and #value <= MARK_AT + MAX_TAIL then
  local id, mode, is_marked = string.sub(value, ID_START, ID_END), string.sub(value, MODE_AT, MODE_AT), string.sub(value, MARK_AT, MARK_AT) == 'q'
  local ends = key_ends(holder)
  if is_marked and ends > 0 then
    ends = ends - GRACE_MS -- the key outlives its hold
  end
  if mode == '-' or is_marked and ends > 0 and redis.call('PTTL', holder) <= GRACE_MS then
    return {0}
  end
  return {1, mode, stamp, id, string.match(value, '^[^\n]*', MARK_AT + 1), ends}
end
if string.sub(value, 1, 3) ~= 'sb1' or kind == '-' or kind == 'l' or #value < WAITER_END or #value > WAITER_END + MAX_TAIL then
  return {-2, '?'}
end
return {1, kind, stamp, string.sub(value, ID_START, ID_END), string.match(value, '^[^\n]*', WAITER_END + 1), key_ends(holder)}
