-- include shards/group
-- include shards/index
-- shards/whole
-- Whether all keys of a group are there; and making one anew. A new group grants nothing for two
-- seconds, so that members of one that was lost learn of it first, and many that start together
-- all get shards.
--
-- uses     donors, ends, fields, find, group, index, members, next_version, now_us, proven, rows, state, stored, takers
-- defines  is_whole, make_group
local function is_whole()
  if redis.call('EXISTS', members) ~= redis.call('EXISTS', ends) or redis.call('EXISTS', rows) > redis.call('EXISTS', index) then
    return false
  end
  local owned = find('n', 1)[1]
  return not owned or redis.call('EXISTS', members, rows) == 2
end
local function make_group(count)
  redis.call('UNLINK', group, members, ends, donors, takers, proven, rows, index)
  for n, field in ipairs(fields) do
    state[field], stored[n] = 0, false
  end
  state.count, state.names, state.requested = tonumber(count), count == '0' and 1 or 0, tonumber(count)
  state.first_grant, state.began, state.last = now_us + FIRST_GRANT_US, tonumber(next_version()), now_us
end
