-- include shards/index
-- shards/requested
-- The set that members request: c:<request>:<number> in the index, for each that has polled and
-- requests one. A request is a count, or the digest of names. What all request, and was not
-- requested by all before, replaces the set: a count at once, and names when a member that requests
-- them has sent them. While they are on their way no shard is granted: it may leave the set. That
-- has an end, also if the names never come.
--
-- uses     agreed_set, concerned, count_of, find, index, next_version, now_us, state
-- defines  common_set, drop_requested, read_requested, request_names
local function common_set()
  local first = find('c', 1)[1]
  local common = string.match(first or '', '^c:(%w+):')
  return common and count_of('c:' .. common) == count_of('c') and common
end
local function read_requested()
  local common, is_first = common_set(), state.asked == 0
  state.asked = 0
  if not common or common == agreed_set or state.resize > 0 then
    return
  end
  if state.names == 1 then
    state.asked = 1
    if is_first then
      state.names_due = now_us + NAMES_PATIENCE_US
      concerned[string.match(find('c', 1)[1], '%d+$')] = true
    end
    return
  end
  agreed_set, state.set_at = common, tonumber(next_version())
  state.resize = tonumber(common) ~= state.count and tonumber(common) or 0
end
-- Returns 1 if this member is to send its names: one is asked at a time.
local function request_names(member)
  if state.asked == 0 or now_us < state.first_grant or now_us - state.asked < NAMES_PATIENCE_US then
    return 0
  end
  if member.requested == '0' or member.state == 'g' then
    return 0
  end
  state.asked = now_us
  return 1
end
local function drop_requested(owner, member)
  redis.call('ZREM', index, 'c:' .. member.requested .. ':' .. owner)
  read_requested()
end
