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
  local said = redis.call('HMGET', group, 'server', 'last', 'resize', 'asked', 'gone', 'free', 'wake', 'names', 'next', 'count', 'version', 'kept', 'keys', 'newest', 'drain', 'set_at', 'made', 'known', 'agreed_set')
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
  local lease, ranked, is_proven, read = string.match(redis.call('HGET', members, number) or '', '^[lp] %d+ %d+ (%d+) (%d+) (%d) %w+ (%d+) ')
  local age = math.max(server_us - number, 0)
  if not lease or is_proven == '0' and age > PROVEN_US or said[15] ~= '0' and seen > read then
    return nil
  end
  -- All keys are there, and none is of an earlier time; see shards/whole.
  local first, last = '[v:', '(v;'
  local entry = redis.call('ZRANGE', index, last, first, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local version, shard = string.match(entry or '', '^v:(%d+):(.*)$')
  local row = version and redis.call('HGET', rows, shard)
  if not row or not string.find(row, version, 1, true) or version - said[14] ~= 0 or redis.call('EXISTS', members, ends, donors, takers, proven, rows, index) - said[13] ~= 0 then
    return nil
  end
  -- Each member, which has three fields, has a lease, and none has ended. No shard was asked for, and
  -- none moves.
  local after, before = '(-' .. now, '(' .. now
  first, last = '[a:', '(a;'
  if redis.call('ZCARD', ends) * 3 ~= redis.call('HLEN', members) or redis.call('ZRANGE', ends, after, before, 'BYSCORE', 'LIMIT', 0, 1)[1] or redis.call('ZRANGE', index, first, last, 'BYLEX', 'LIMIT', 0, 1)[1] then
    return nil
  end
  local most = redis.call('ZRANGE', donors, 0, 0, 'REV', 'WITHSCORES')[2]
  local least = most and redis.call('ZRANGE', takers, 0, 0, 'WITHSCORES')[2]
  if most and (most - GIVES_ALL >= 0 or least and least - most < 0) then
    return nil
  end
  -- The caller has read all news. While no shard is asked for, its load is all that it owns.
  first, last = '[n:' .. number .. ':', '(n:' .. number .. ';'
  entry = redis.call('ZRANGE', index, last, first, 'BYLEX', 'REV', 'LIMIT', 0, 1)[1]
  local newest = string.match(entry or '', '^n:%d+:(%d+):')
  local owned = newest and redis.call('ZLEXCOUNT', index, first, last) or 0
  if newest and newest > seen or owned - ranked ~= 0 then
    return nil
  end
  local life_us = math.min(tonumber(lease), YOUNG_LIFE_US + age)
  redis.call('PEXPIRE', group, GROUP_TTL_MS)
  redis.call('ZADD', ends, 'GT', string.format('%016.0f', server_us + life_us), number)
  redis.call('HSET', group, 'last', now, 'server', now)
  local known = string.format('%016.0f', tonumber(said[16])) .. string.format('%016.0f', tonumber(said[17])) .. string.sub(string.format('%016.0f', math.max(count, tonumber(said[18]))), -LIMIT_DIGITS) .. (said[19] or '')
  return {1, now, life_us, 0, count, '', known, 0, (newest or NO_STAMP) .. string.format('%.0f', owned)}
end
