-- include shards/group
-- include shards/index
-- shards/member
-- Members, as this call has read them. The state of a member is j before its first poll, then l; q
-- before its first poll and p then if it is paused; g leaves, e joined again under another number,
-- d is dead. Its load is what it owns and was not asked for, and what is promised to it by drains
-- that do not hang. It is counted whenever a call reads the member, and never stored: ranked is the
-- load with which it was written to donors and takers.
--
-- uses     count_after, count_of, decimal, donors, hung_before, members, next_version, proven, state, takers
-- defines  change_load, concerned, has_room, is_changed, members_read, rank, read_member, set_state, write_members
local members_read, concerned, is_changed = {[NO_STAMP] = false}, {}, false
local function read_member(owner)
  local member = members_read[owner]
  if member == nil then
    local record = redis.call('HGET', members, owner)
    member = false
    if record then
      member = {}
      member.state, member.weight, member.limit, member.lease, member.ranked, member.is_proven, member.requested, member.seen, member.said, member.id =
        string.match(record, '^(%l) (%d+) (%d+) (%d+) (%-?%d+) (%d) (%w+) (%d+) (%d+) (.+)$')
      for _, field in ipairs({'weight', 'limit', 'lease', 'ranked'}) do
        member[field] = tonumber(member[field])
      end
      member.load = count_of('k:' .. owner) + count_after('[p:' .. owner .. ':' .. hung_before, 'p:' .. owner)
    end
    members_read[owner] = member
  end
  return member
end
-- Returns whether a member has changed.
local function write_members()
  local has_changed = false
  for owner, member in pairs(members_read) do
    if member and member.is_dirty then
      local record = table.concat({
        member.state, decimal(member.weight), decimal(member.limit), decimal(member.lease), decimal(member.ranked), member.is_proven, member.requested, member.seen, member.said, member.id,
      }, ' ')
      redis.call('HSET', members, owner, record)
      has_changed = true
    end
  end
  return has_changed
end

-- Whether a member may have one shard more: what it was asked for and has not released counts for
-- its limit. It is counted only if there is a limit. counted is 1 if its load has that shard, else 0.
local function has_room(owner, member, counted)
  local load = member.load - counted
  if load >= member.limit or member.limit >= MAX_SHARDS then
    return load < member.limit
  end
  return load + count_of('n:' .. owner) - count_of('k:' .. owner) < member.limit
end
-- Writes where a member stands among those that may give and take shards. A shard moves while the
-- least (load + 1/2) / weight of a taker is below the greatest (load - 1/2) / weight of a donor;
-- scores are twice that. A member that has to give all it has is urgent.
local function rank(owner, member)
  local load = member.load
  is_changed, member.ranked, member.is_dirty = true, load, true
  if member.state == 'l' and has_room(owner, member, 0) then
    redis.call('ZADD', takers, (2 * load + 1) / member.weight, owner)
    if member.is_proven == '1' then
      redis.call('ZADD', proven, (2 * load + 1) / member.weight, owner)
    end
  else
    redis.call('ZREM', takers, owner)
    redis.call('ZREM', proven, owner)
  end
  if load == 0 or member.state == 'd' then
    redis.call('ZREM', donors, owner)
  elseif member.state ~= 'l' or load > member.limit then
    redis.call('ZADD', donors, GIVES_ALL + load, owner)
  else
    redis.call('ZADD', donors, (2 * load - 1) / member.weight, owner)
  end
end
local function change_load(owner, change)
  local member = read_member(owner)
  if member and (change ~= 0 or member.limit < MAX_SHARDS) then
    member.load = member.load + change
    rank(owner, member)
  end
end
local function set_state(owner, member, next_state)
  member.state, state.changed = next_state, tonumber(next_version())
  rank(owner, member)
end
