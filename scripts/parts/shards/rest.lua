-- include queue/now
-- shards/rest
-- A poll of a group at rest: if a whole poll would find nothing to do, rest does what is left of it,
-- which is to make the lease last, and returns the reply; else nil, and it has written nothing. It
-- stands in front of all other parts, since making their functions costs as much as this poll.
-- TestAPollAtRestIsAWholePoll compares the two.
--
-- uses     donors, ends, group, index, members, now, number, proven, rows, seen, takers
-- defines  rest
local function rest()
  local said = redis.call('HMGET', group, 'server', 'last', 'resize', 'asked', 'gone', 'free', 'wake', 'names', 'next', 'count', 'version', 'kept', 'newest', 'drain', 'set_at', 'made', 'known', 'agreed_set')
  -- The clock ran on since the last call, nothing waits for it, and no shard is free, or leaves.
  if not said[1] or said[1] ~= said[2] or said[3] ~= '0' or said[4] ~= '0' or said[5] ~= '0' or said[6] ~= '0' or said[7] ~= '0' then
    return nil
  end
  local server_us, count = tonumber(now), tonumber(said[10])
  local silent_us = server_us - said[1]
  if silent_us < 0 or silent_us > SILENCE_US or server_us - said[12] > RENEW_KEYS_US or seen - said[11] > 0 or said[8] ~= '1' and said[9] - count < 0 then
    return nil
  end
  -- The caller is as its last poll left it.
  local record = redis.call('HMGET', members, number, NEWEST)
  local lease, ranked, is_proven, read, settings = string.match(record[1] or '', '^[lp] %d+ %d+ (%d+) (%d+) (%d) %w+ (%d+) (%d+) ')
  local age = math.max(server_us - number, 0)
  if not lease or is_proven == '0' and age > PROVEN_US or said[14] ~= '0' and seen > read then
    return nil
  end
  -- All keys are there, and of the same time; see shards/whole.
  local newest = said[13]
  local most, least = redis.call('ZRANGE', donors, 0, 1, 'REV', 'WITHSCORES'), redis.call('ZRANGE', takers, 0, 1, 'WITHSCORES')
  if record[2] ~= newest or redis.call('HGET', rows, NEWEST) ~= newest or not redis.call('ZSCORE', index, NEWEST_ENTRY .. newest)
    or most[1] ~= NEWEST or most[2] - newest ~= 0 or least[1] ~= NEWEST or least[2] + newest ~= 0
    or (redis.call('ZSCORE', proven, NEWEST) or 0) + newest ~= 0 or (redis.call('ZSCORE', ends, NEWEST) or 0) - 2 * server_us + 2 * silent_us ~= 0 then
    return nil
  end
  -- No lease has ended, no shard was asked for, and none moves.
  local after, before = '(-' .. now, '(' .. now
  local first, last = '[a:', '(a;'
  if redis.call('ZRANGE', ends, after, before, 'BYSCORE', 'LIMIT', 0, 1)[1] or redis.call('ZRANGE', index, first, last, 'BYLEX', 'LIMIT', 0, 1)[1] then
    return nil
  end
  if most[4] and (most[4] - GIVES_ALL >= 0 or least[4] and least[4] - most[4] < 0) then
    return nil
  end
  -- The caller has read all news. While no shard is asked for, its load is all that it owns.
  first, last = '[n:' .. number .. ':', '(n:' .. number .. ';'
  local entry = redis.call('ZRANGE', index, last, first, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local version = string.match(entry or '', '^n:%d+:(%d+):')
  local owned = version and redis.call('ZLEXCOUNT', index, first, last) or 0
  if version and version > seen or owned - ranked ~= 0 then
    return nil
  end
  local life_us = math.min(tonumber(lease), YOUNG_LIFE_US + age)
  redis.call('PEXPIRE', group, GROUP_TTL_MS)
  redis.call('ZADD', ends, 'GT', string.format('%016.0f', server_us + life_us), number, string.format('%.0f', 2 * server_us), NEWEST)
  redis.call('HSET', group, 'last', now, 'server', now)
  local known = string.format('%016.0f', tonumber(said[15])) .. string.format('%016.0f', tonumber(said[16])) .. string.sub(string.format('%016.0f', math.max(count, tonumber(said[17]))), -LIMIT_DIGITS) .. (said[18] or '')
  return {1, now, life_us, 0, count, '', known, 0, (version or NO_STAMP) .. string.format('%.0f', owned), tonumber(settings)}
end
