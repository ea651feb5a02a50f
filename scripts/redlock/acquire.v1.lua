-- redlock/acquire v1
-- Takes one server's part of a lock that a quorum of servers gives. A server that lost its data, or
-- has another life than the one it remembers, grants nothing for one greatest lease: it may have
-- forgotten a hold. Sent again for the same hold it returns the same stamp again.
--
-- KEYS[1]  holder  string: 'sb1q', stamp (16), id (41), waiter (22), label (0 to 64); see README.md
-- KEYS[2]  epoch  string: since when the server has its data, and in which life of it; see
--          README.md
-- KEYS[3]  fence  string: a stamp that is not before the last token that was made to be ordered
-- ARGV[1]  hold  id (41), fresh for every attempt and begun by its session (22), 22 dashes, label
-- ARGV[2]  ttl_ms  positive integer
-- ARGV[3]  not_after  stamp; executed later, nothing is written
-- ARGV[4]  waiter  session (22) that wants a message at the release, or ''
-- ARGV[5]  greatest_us  the longest lease of any session for the name, in microseconds
-- returns  stamp                     granted, at the server's time stamp
--          {1, stamp, now}           granted, at a stamp that is not the server's time now, but
--            after every floor that it knows
--          {0, left_ms, now, attempt}   another has it, left_ms until its key ends; attempt (19) is
--            the end of that hold
--          {-1, now}                 later than not_after
--          {-2, kind}                the name is in use by another kind of lock, or a key is not
--            ours ('?')
--          {-7, left_us, now}        the server has its data since lately; it grants nothing for
--            left_us more
-- effects  writes KEYS[1], and KEYS[2] once in 2 ms; recalls a hold of another kind that may be
--          idle
-- cost     O(1): TIME, MGET, SET; once in 2 ms GET twice, INFO twice, PTTL, SET as well; held:
--          TIME, MGET, PTTL, and SET for the first waiter
local holder, epoch, fence = KEYS[1], KEYS[2], KEYS[3]
local hold, ttl_ms, not_after, waiter, greatest_us = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(string.find(ttl_ms .. ' ' .. greatest_us, '^[1-9]%d* %d+$') and ttl_ms + greatest_us < MAX_NUMBER, 'bad argument')

-- include queue/now

if now > not_after then
  return {-1, now}
end

-- include lock/longest

-- One command for all of them. It has nothing for a key of another type, which a command for
-- that key alone finds out.
local values = redis.call('MGET', holder, epoch, fence)
local value, recorded, fenced = values[1], values[2], values[3]
local kind = value and string.sub(value, 1, 4)
local floor = ''
if kind == 'sb1-' and #value == STAMP_END then
  floor = string.sub(value, STAMP_START, STAMP_END)
elseif kind == 'sb1q' and #value >= WAITER_END and #value <= WAITER_END + MAX_TAIL then
  if string.sub(value, ID_START, ID_END) == string.sub(hold, 1, ID_LENGTH) then
    -- It may come after a heal, whose life is longer, and on which the holder counts.
    if redis.call('PTTL', holder) < tonumber(ttl_ms) then
      redis.call('PEXPIRE', holder, ttl_ms)
      note_life(holder, ttl_ms, value)
    end
    return {1, string.sub(value, STAMP_START, STAMP_END), now}
  end
  local noted_waiter = string.sub(value, ID_END + 1, WAITER_END)
  if waiter ~= '' and (noted_waiter == NO_WAITER or noted_waiter == string.sub(value, ID_START, SESSION_END)) then
    -- A waiter of the holder's own session is no other session to notify: it is replaced.
    redis.pcall('SET', holder, string.sub(value, 1, ID_END) .. waiter .. string.sub(value, WAITER_END + 1), 'KEEPTTL')
  end
  local left_ms = redis.call('PTTL', holder)
  if left_ms < 0 or left_ms > longest_ms(value) then
    -- The server's clock was set back, or another program took the end away, or set a later one.
    left_ms = longest_ms(value)
    redis.pcall('PEXPIRE', holder, left_ms)
  end
  return {0, left_ms, now, string.sub(value, SESSION_END + 1, ID_END)}
elseif kind then
  local other = '?'
  if string.sub(kind, 1, 3) == 'sb1' and kind ~= 'sb1q' and kind ~= 'sb1-' then
    other = string.sub(kind, 4)
  end
  if other == 'l' then
    hold = string.sub(value, ID_START, MODE_AT)
    -- include lock/recall
    recall('k')
  end
  return {-2, other}
end

-- Asked for a key that MGET has nothing for, before anything is written. A lock that several may
-- have is a sorted set: see rwlock/enter v1. Any other type is an error.
local function several()
  if type(redis.pcall('ZSCORE', holder, 'sb1w')) == 'string' then
    return true
  end
  redis.call('GET', holder)
end

-- The epoch: since when the server has its data, when its life was last compared, and the life. The
-- life is what the server calls itself between two starts, and which server's data it took over with,
-- and costs much to read. Between two reads 2 ms apart no server ends, starts and loads data that have
-- the first of them.
if recorded and (string.sub(recorded, 1, 4) ~= 'sb1e' or #recorded < EPOCH_CHECKED_END) then
  return {-2, '?'}
end
local micros = tonumber(now)
local since = recorded and string.sub(recorded, STAMP_START, STAMP_END)
local ago_us = recorded and micros - tonumber(string.sub(recorded, STAMP_END + 1, EPOCH_CHECKED_END))
-- include redlock/epoch
if not recorded or ago_us < 0 or ago_us >= EPOCH_CHECK_US or since > now then
  if not value and several() then
    return {-2, 'w'}
  end
  if not recorded then
    redis.call('GET', epoch)
  end
  check_epoch()
end
local left_us = tonumber(since) + tonumber(greatest_us) - micros
if left_us > 0 then
  return {-7, left_us, now}
end

if fenced and #fenced == STAMP_LENGTH and fenced > floor then
  floor = fenced
end
local stamp = now
if tonumber(ttl_ms) > NOTED_LIFE_MS then
  hold = hold .. '\n' .. ttl_ms
end
if now <= floor then
  stamp = string.format('%016.0f', tonumber(floor) + 1)
end
if value then
  redis.call('SET', holder, 'sb1q' .. stamp .. hold, 'PX', ttl_ms)
elseif not redis.call('SET', holder, 'sb1q' .. stamp .. hold, 'PX', ttl_ms, 'NX') and several() then
  return {-2, 'w'}
end
if stamp == now then
  return now
end
return {1, stamp, now}
