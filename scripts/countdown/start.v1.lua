-- countdown/start v1
-- Starts a round, unless one is running. Sent again for the same nonce it returns the round that it
-- started, also when that is over, while it is among the last 32. After that it returns that the
-- round may be a forgotten one.
--
-- KEYS[1]  latch  hash: round, past, and ':' and an id for each that was counted; see README.md
-- ARGV[1]  begun  nonce (11), fresh for every start
-- ARGV[2]  total  8 digits: how many ids open the round
-- ARGV[3]  keep_ms  10 digits: how long the key is kept after its last use
-- ARGV[4]  not_after  stamp; executed later, nothing is written
-- ARGV[5]  first  stamp before which no copy of this start was executed; '' if no copy was sent
--          whose outcome is unknown
-- returns  {1, stamp, now}  started, or started before; now is the server's time
--          {0, now}         another round is running
--          {-1, now}        later than not_after
--          {-2}             the key is no latch's
--          {-6, now}        a copy may have started a round that is over and forgotten; nothing was
--            written
--          an error         the server's refusal to give the key an end; it is as it was before
-- effects  writes KEYS[1]; publishes nothing
-- cost     O(1): TIME, HGET twice, HLEN, HSET, PEXPIRE
local latch = KEYS[1]
local begun, total, keep_ms, not_after, first = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(#total == TOTAL_LENGTH and #keep_ms == KEEP_LENGTH and not string.find(total .. keep_ms, '%D') and tonumber(keep_ms) > 0, 'bad argument')

-- include queue/now

if now > not_after then
  return {-1, now}
end

-- include countdown/round
if is_foreign then
  return {-2}
end

local floor, since, before = now, now, past
if value then
  if nonce == begun then
    return {1, stamp, now}
  end
  for i = 1, #before, PAST_ROUND do
    if string.sub(before, i + (STAMP_LENGTH + 1), i + (PAST_ROUND - 1)) == begun then
      return {1, string.sub(before, i, i + (STAMP_LENGTH - 1)), now}
    end
  end
  -- Rounds that are forgotten began before the last of those that are known.
  if first ~= '' and #before == PAST_LENGTH and string.sub(before, PAST_LENGTH - PAST_ROUND + 1, PAST_LENGTH - PAST_ROUND + STAMP_LENGTH) > first then
    return {-6, now}
  end
  if state == 'c' then
    return {0, now}
  end
  -- Stamps rise, also if the clock was set back. The next one differs by the nonce, up to a quarter
  -- of a second: a failover may have lost a round that got the next one before.
  if floor <= stamp then
    local a, b, c = string.byte(begun, 8, 10)
    floor = string.format('%016.0f', tonumber(stamp) + 1 + a % 64 * 4096 + b % 64 * 64 + c % 64)
  end
  since, past = string.sub(value, NONCE_END + 1, SINCE_END), stamp .. state .. nonce .. before
  if #past > PAST_LENGTH then
    -- What is forgotten counts as open, unless it was reset: then nothing up to there is known any
    -- more.
    if string.sub(past, PAST_LENGTH + STAMP_LENGTH + 1, PAST_LENGTH + STAMP_LENGTH + 1) == 'x' then
      since = string.format('%016.0f', tonumber(string.sub(past, PAST_LENGTH + 1, PAST_LENGTH + STAMP_LENGTH)) + 1)
    end
    past = string.sub(past, 1, PAST_LENGTH)
  end
  -- Ids of the last round, if they could not be removed. HSET changes nothing here: it is refused
  -- if the one below would be, and then nothing is removed.
  if redis.call('HLEN', latch) > fields then
    redis.call('HSET', latch, 'round', value)
    redis.call('UNLINK', latch)
  end
end

redis.call('HSET', latch, 'round', 'sb1' .. floor .. 'c' .. begun .. since .. total .. keep_ms, 'past', past)
local kept = redis.pcall('PEXPIRE', latch, tonumber(keep_ms))
if type(kept) == 'table' then
  -- A key without an end must not stay.
  if value then
    redis.call('HSET', latch, 'round', value, 'past', before)
  else
    redis.call('UNLINK', latch)
  end
  return kept
end
return {1, floor, now}
