-- redlock/heal v1
-- Gives one server's part of locks back to holds that a quorum of the other servers has confirmed:
-- after the server lost its data, or if it never granted them. It begins the epoch if the server has
-- none. Within one greatest lease from then on the server writes a hold only if its sender knew this
-- epoch before it sent that round of renewals; after it as an acquire would. Sent again, it finds
-- the hold.
--
-- KEYS[1]  epoch  string: see redlock/acquire v1
-- KEYS[n]  pair  two by hold, at 2n and 2n+1: holder, fence
--            holder  string: see redlock/acquire v1
--            fence   string: see redlock/acquire v1; raised to a floor that the hold replaces
-- ARGV[1]  not_after  stamp; executed later, nothing is written
-- ARGV[n]  request  seven by hold, at 7n-5 to 7n+1: hold, stamp, ttl_ms, greatest_us, granted,
--          reported, fenced
--            hold         id (41), 22 dashes, label
--            stamp        of the lease's token, which is written
--            ttl_ms       positive integer; 0 asks only
--            greatest_us  the longest lease of any session for the name, in microseconds
--            granted      stamp that is not after the server wrote the hold the last time, and not
--              before the epoch of that time; zeros if it never did
--            reported     the epoch that was returned before; '' if the hold may be written after
--              the quarantine alone
--            fenced       '1' if tokens are ordered by the fence, or ''
-- returns  {now, since, code, ...}  the server's time, since when it has its data, and by hold
--            1   the hold is there, for ttl_ms at the least
--            0   another hold has it, or the call only asks
--            -2  the name is in use by another kind of lock, or a key is not ours
--            -7  the server has its data since lately: not written
--            -8  the server refused to write
--            -9  the server had the hold in these data, and it was removed: not written
--          {-1, now}  later than not_after
--          {-2, '?'}  the epoch is not ours
-- effects  writes KEYS; publishes nothing
-- cost     O(holds): TIME, MGET, INFO twice, PTTL; SET for a new epoch; SET each, twice more with a
--          fence; PTTL and PEXPIRE for a hold that is there
local epoch, not_after = KEYS[1], ARGV[1]
assert(#KEYS % 2 == 1 and #ARGV == 7 * (#KEYS - 1) / 2 + 1, 'bad argument')
for n = 1, (#KEYS - 1) / 2 do
  local hold, stamp, ttl_ms, greatest_us = ARGV[7 * n - 5], ARGV[7 * n - 4], ARGV[7 * n - 3], ARGV[7 * n - 2]
  local granted, reported = ARGV[7 * n - 1], ARGV[7 * n]
  assert(string.find(ttl_ms .. ' ' .. greatest_us, '^%d+ %d+$') and ttl_ms + greatest_us < MAX_NUMBER
    and string.find(stamp .. granted .. reported, '^%d+$') and #stamp == STAMP_LENGTH and #granted == STAMP_LENGTH
    and (reported == '' or #reported == STAMP_LENGTH)
    and #hold >= ID_LENGTH + #NO_WAITER and #hold <= ID_LENGTH + #NO_WAITER + MAX_LABEL, 'bad argument')
end

-- include queue/now

if now > not_after then
  return {-1, now}
end

local values = redis.call('MGET', unpack(KEYS))
local recorded = values[1]
if recorded and (string.sub(recorded, 1, 4) ~= 'sb1e' or #recorded < EPOCH_CHECKED_END) then
  return {-2, '?'}
end
if not recorded then
  redis.call('GET', epoch) -- of another type, it is an error
end
local since = recorded and string.sub(recorded, STAMP_START, STAMP_END)
local ago_us = 0 -- so that it is not written that the life was compared

-- include lock/longest
-- include redlock/epoch
-- Always: what is written within the quarantine rests on the comparison.
local life = check_epoch()

-- Makes the fence stamp if it is less, and reports whether it is not less now.
local function raise_fence(fence, kept, stamp)
  return kept and kept >= stamp or not redis.pcall('SET', fence, stamp, 'PX', FENCE_TTL_MS)['err']
end

local reply = {now, since}
for n = 1, (#KEYS - 1) / 2 do
  local holder, fence = KEYS[2 * n], KEYS[2 * n + 1]
  local hold, stamp, ttl_ms, greatest_us = ARGV[7 * n - 5], ARGV[7 * n - 4], ARGV[7 * n - 3], ARGV[7 * n - 2]
  local granted, reported, fenced = ARGV[7 * n - 1], ARGV[7 * n], ARGV[7 * n + 1]
  local value, code = values[2 * n], 0
  local is_hold = value and string.sub(value, 1, 4) == 'sb1q' and #value >= WAITER_END and #value <= WAITER_END + MAX_TAIL
  local is_floor = value and string.sub(value, 1, 4) == 'sb1-' and #value == STAMP_END
  local floor = is_floor and string.sub(value, STAMP_START) or ''
  if is_hold then
    code = string.sub(value, ID_START, ID_END) == string.sub(hold, 1, ID_LENGTH) and 1 or 0
    if code == 1 and ttl_ms ~= '0' and redis.call('PTTL', holder) < tonumber(ttl_ms) then
      -- An acquire came late, behind the renewal that did not find the hold.
      redis.call('PEXPIRE', holder, ttl_ms)
      note_life(holder, ttl_ms, value)
    end
  elseif value and not is_floor then
    code = -2
  elseif since <= granted or floor == stamp
    or granted ~= NO_STAMP and floor >= granted and tonumber(floor) < tonumber(since) + greatest_us then
    -- A server that restarted with its data has a later epoch, and a floor with the stamp of the hold
    -- that was removed. A floor of this epoch is later: no vote passes within the quarantine.
    code = -9
  elseif (life == '' or since ~= reported) and tonumber(since) + greatest_us > tonumber(now) then
    code = -7
  elseif ttl_ms ~= '0' then
    local text = 'sb1q' .. stamp .. hold .. (tonumber(ttl_ms) > NOTED_LIFE_MS and '\n' .. ttl_ms or '')
    local written
    if floor > stamp and not raise_fence(fence, values[2 * n + 1], floor) then
      -- If this comes after the release, it is perhaps the floor of a later lease.
      written = {err = 'the floor would be lost'}
    elseif is_floor then
      written = redis.pcall('SET', holder, text, 'PX', ttl_ms)
    else
      written = redis.pcall('SET', holder, text, 'PX', ttl_ms, 'NX') -- a key of another type stays
    end
    code = not written and -2 or written['err'] and -8 or 1
  end
  if code == 1 and fenced == '1' then
    if floor <= stamp then -- else it is greater since now
      code = raise_fence(fence, values[2 * n + 1], stamp) and 1 or -8
    end
    if is_hold and string.sub(value, STAMP_START, STAMP_END) < stamp then
      redis.pcall('SET', holder, 'sb1q' .. stamp .. string.sub(value, ID_START), 'KEEPTTL')
    end
  end
  reply[n + 2] = code
end
return reply
