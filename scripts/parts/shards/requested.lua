-- include shards/index
-- shards/requested
-- The set that members wish: c:<wish>:<number> in the index, for each that has polled and wishes
-- one. A wish is a count, or the digest of names. What all wish, and was not wished by all before,
-- replaces the set: a count at once, and names when a member that wishes them has sent them.
--
-- uses     count_of, find, index, next_version, now_us, state, wish
-- defines  ask_for_names, common_wish, drop_requested, read_requested
local function common_wish()
  local first = find('c', 1)[1]
  local common = string.match(first or '', '^c:(%w+):')
  return common and count_of('c:' .. common) == count_of('c') and common
end
local function read_requested()
  local common = common_wish()
  state.asked = 0
  if not common or common == wish or state.resize > 0 then
    return
  end
  if state.names == 1 then
    state.asked = 1
    return
  end
  wish, state.told = common, tonumber(next_version())
  state.resize = tonumber(common) ~= state.count and tonumber(common) or 0
end
-- Returns 1 if this member is to send its names: one is asked at a time.
local function ask_for_names(member)
  if state.asked == 0 or member.requested == '0' or now_us < state.first_grant or now_us - state.asked < ASKED_US then
    return 0
  end
  state.asked = now_us
  return 1
end
local function drop_requested(owner, member)
  redis.call('ZREM', index, 'c:' .. member.requested .. ':' .. owner)
  read_requested()
end
