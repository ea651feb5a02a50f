-- include shards/member
-- shards/taker
-- Which member gets a shard: the one with the least load for its weight, of those that live.
--
-- uses     digits, donors, ends, group_time, now_us, proven, read_member, state, takers
-- defines  bans_left, first_fit, first_taker, is_banned, is_present, is_recent, polled_at, taker_of, waits_for
local polled_at = {}
local function waits_for(row, owner)
  return row.state == 'w' and row.promised == owner
end
-- A member that was silent for 3 s takes nothing until its next poll.
local function is_recent(owner)
  local member = read_member(owner)
  if polled_at[owner] == nil then
    local till = redis.call('ZSCORE', ends, owner) -- by the server's time
    polled_at[owner] = false
    if member and till then
      local life_end = group_time(tonumber(till))
      -- Its last life was its lease, or shorter because it was young.
      local young = (life_end - YOUNG_LIFE_US + tonumber(owner)) / 2
      local at = math.max(life_end - member.lease, young)
      polled_at[owner] = at >= now_us - TAKER_RECENT_US and at
    end
  end
  if not polled_at[owner] then
    redis.call('ZREM', takers, owner)
    redis.call('ZREM', proven, owner)
    if member then
      member.ranked, member.is_dirty = -1, true
    end
  end
  return polled_at[owner]
end
-- Whether a shard without an owner may be granted to a member that counts: it was heard within 2 s.
-- While members die young, one that is young may have died with the last owner. It gets a shard of
-- the dead when it was heard since the shard began to wait for it.
local function is_present(owner, row, is_lost)
  local earliest = now_us - TAKER_PRESENT_US
  if is_lost and state.crashes > 0 and read_member(owner).is_proven == '0' then
    earliest = waits_for(row, owner) and tonumber(row.version) or now_us
  end
  return is_recent(owner) and polled_at[owner] >= earliest
end
-- Returns the taker with the least score, if that is below another one.
local function first_taker(below)
  local found
  repeat
    found = redis.call('ZRANGE', takers, 1, 1, 'WITHSCORES') -- the first element is no member: see shards/whole
    if below and found[1] and tonumber(found[2]) >= below then
      return nil
    end
  until not found[1] or is_recent(found[1])
  return found[1], tonumber(found[2])
end

-- A row's bans are members that do not get the shard, each until a time.
local function is_banned(row, owner)
  local at = string.find(row.bans, owner .. ':', 1, true) -- plain: there may be many rows
  return at and string.sub(row.bans, at + STAMP_LENGTH + 1, at + 2 * STAMP_LENGTH) > digits(now_us)
end
-- Returns the first taker, from a score on, that may have the shard.
local function first_fit(is_for_proven, least, row)
  local passed, found = 0, nil
  repeat
    if is_for_proven then
      found = redis.call('ZRANGE', proven, least, '+inf', 'BYSCORE', 'LIMIT', passed, TAKERS_PAGE, 'WITHSCORES')
    else
      found = redis.call('ZRANGE', takers, least, '+inf', 'BYSCORE', 'LIMIT', passed, TAKERS_PAGE, 'WITHSCORES')
    end
    for n = 1, #found, 2 do
      if is_banned(row, found[n]) then
        passed = passed + 1
      elseif is_recent(found[n]) then -- else it is not in the set any more
        return found[n], tonumber(found[n + 1])
      end
    end
  until not found[1]
  return nil
end
-- Returns the member that gets a shard. While members die young, a shard of the dead goes past a
-- member that is younger than 30 s and whose share is still to come, by moves: such a one may be
-- the next to die. All others count, whatever their ages are, so that no shard of theirs moves.
local function taker_of(row, is_lost)
  local taker = first_fit(false, 0, row)
  if not taker or not is_lost or state.crashes == 0 or read_member(taker).is_proven == '1' then
    return taker
  end
  local below = '(' .. GIVES_ALL
  local donor = redis.call('ZRANGE', donors, below, '-inf', 'BYSCORE', 'REV', 'LIMIT', 0, 1, 'WITHSCORES')
  local with_share, score = first_fit(false, donor[2] or 0, row)
  local old, least = first_fit(true, 0, row)
  return (not old or with_share and score < least) and (with_share or taker) or old
end
-- Returns the bans that are not over, of members that are there, and when the first of them ends.
-- If there are too many, that one is left out.
local function bans_left(row)
  local left, first, at = {}, nil, nil
  for owner, till in string.gmatch(row.bans, '(%d+):(%d+)') do
    if till > digits(now_us) and read_member(owner) then
      left[#left + 1] = owner .. ':' .. till
      if not first or till < first then
        first, at = till, #left
      end
    end
  end
  if #left > MAX_BANS then
    table.remove(left, at)
  end
  return table.concat(left, ' '), first
end
