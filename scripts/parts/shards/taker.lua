-- include shards/member
-- shards/taker
-- Which member gets a shard: the one with the least load for its weight that was heard from lately.
--
-- uses     ends, now, now_us, proven, read_member, takers
-- defines  bans_left, first_taker, is_banned, is_recent, recent, taker_of
local recent = {}
-- A member that is silent takes nothing until its next poll.
local function is_recent(owner)
  local member = read_member(owner)
  if recent[owner] == nil then
    local till = redis.call('ZSCORE', ends, owner)
    recent[owner] = false
    if member and till then
      -- Its last life was its lease, or shorter because it was young.
      local young = (till - YOUNG_LIFE_US + tonumber(owner)) / 2
      recent[owner] = math.max(till - member.lease, young) >= now_us - TAKER_RECENT_US
    end
  end
  if not recent[owner] then
    redis.call('ZREM', takers, owner)
    redis.call('ZREM', proven, owner)
    if member then
      member.ranked, member.is_dirty = -1, true
    end
  end
  return recent[owner]
end
-- Returns the taker with the least score, if that is below another one.
local function first_taker(is_for_proven, below)
  local found
  repeat
    if is_for_proven then
      found = redis.call('ZRANGE', proven, 0, 0, 'WITHSCORES')
    else
      found = redis.call('ZRANGE', takers, 0, 0, 'WITHSCORES')
    end
    if below and found[1] and tonumber(found[2]) >= below then
      return nil
    end
  until not found[1] or is_recent(found[1])
  return found[1], tonumber(found[2])
end

-- A row's bans are members that do not get the shard, each until a time.
local function is_banned(row, owner)
  local till = row.bans ~= '' and string.match(row.bans, owner .. ':(%d+)')
  return till and till > now
end
local function taker_of(row, is_for_proven)
  local taker, score = first_taker(is_for_proven)
  if not taker or not is_banned(row, taker) then
    return taker, score
  end
  local found = redis.call('ZRANGE', takers, 0, MAX_BANS, 'WITHSCORES')
  for n = 1, #found, 2 do
    if not is_banned(row, found[n]) and is_recent(found[n]) then
      return found[n], tonumber(found[n + 1])
    end
  end
  return nil
end
-- Returns the bans that are not over, the last few, and when the first of them ends.
local function bans_left(row)
  local left, first = {}, nil
  for owner, till in string.gmatch(row.bans, '(%d+):(%d+)') do
    if till > now then
      left[#left + 1] = owner .. ':' .. till
      first = (not first or till < first) and till or first
    end
  end
  while #left > MAX_BANS do
    table.remove(left, 1)
  end
  return table.concat(left, ' '), first
end
