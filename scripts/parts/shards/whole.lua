-- include shards/group
-- include shards/index
-- include shards/member
-- shards/whole
-- Whether all keys of a group are there, and none of an earlier time, which each call compares with
-- what the last one left. Ends and loads are made again of the members, also if a member has no end,
-- which is never taken for dead. Without another key, or if group, index and rows do not have the
-- same newest change, the group is lost, and is made anew by the next join: it grants nothing for
-- two seconds, so that members of one that was lost learn of it first, and many that start together
-- all get shards.
--
-- uses     agreed_set, count_of, decimal, digits, donors, ends, fields, find, find_last, group, index, is_group, members, next_version, now_us, proven, rank, read_member, rows, server_us, set_stored, state, stored, takers
-- defines  bound_ends, drop_group, each_member, is_lost, is_mixed, key_count, lacks_end, make_group, mend, newest
local function key_count()
  return redis.call('EXISTS', members, ends, donors, takers, proven, rows, index)
end
-- The version of the newest row, as the index has it; 0 if the rows do not.
local function newest()
  local version, shard = string.match(find_last('v', 1)[1] or '', '^v:(%d+):(.*)$')
  local text = version and redis.call('HGET', rows, shard)
  return text and string.find(text, version, 1, true) and tonumber(version) or 0
end
local function is_lost()
  local has_members, has_rows = redis.call('EXISTS', members), redis.call('EXISTS', rows)
  return has_members < redis.call('EXISTS', ends) or has_rows > redis.call('EXISTS', index)
    or has_rows == 0 and count_of('v') > 0 or has_members == 0 and find('n', 1)[1]
end
local function drop_group()
  redis.call('UNLINK', group, members, ends, donors, takers, proven, rows, index)
  for n, field in ipairs(fields) do
    state[field], stored[n] = 0, false
  end
  is_group, agreed_set, set_stored = nil, '', false
end
local function make_group(count)
  drop_group()
  state.count, state.names = tonumber(count), count == '0' and 1 or 0
  state.made = tonumber(next_version())
  agreed_set = state.names == 0 and count or ''
  state.first_grant, state.began, state.last = now_us + FIRST_GRANT_US, state.made, now_us
end
local function each_member(use)
  local all = redis.call('HGETALL', members)
  for n = 1, #all, 2 do
    if #all[n] == STAMP_LENGTH then
      use(all[n], read_member(all[n]))
    end
  end
end
local function mend()
  each_member(function(number, member)
    redis.call('ZADD', ends, 'NX', digits(server_us + member.lease), number)
    rank(number, member)
    if string.find(member.state, '[lp]') and member.requested ~= '0' then
      redis.call('ZADD', index, 0, 'c:' .. member.requested .. ':' .. number)
    end
  end)
end
-- The server's clock was set back: no lease lasts for longer than it would from now on, and one
-- that is over stays so.
local function bound_ends()
  each_member(function(number, member)
    local last = server_us + (member.state == 'd' and 0 or member.lease)
    redis.call('ZADD', ends, 'XX', 'LT', digits(last), number)
    redis.call('ZADD', ends, 'XX', 'GT', decimal(-last), number) -- over, or ended by force
  end)
end
-- A member has three fields; see shards/poll v1.
local function lacks_end()
  return redis.call('ZCARD', ends) * 3 < redis.call('HLEN', members)
end
local is_mixed = is_group and newest() ~= state.newest
if is_group and (is_mixed or key_count() ~= state.keys or server_us < state.server or lacks_end()) then
  -- It takes no memory: what follows is not refused if memory is full.
  redis.call('PEXPIRE', group, GROUP_TTL_MS)
  local is_set_back = server_us < state.server
  if is_mixed or key_count() ~= state.keys and is_lost() then
    drop_group()
  elseif key_count() ~= state.keys or lacks_end() then
    mend()
  end
  if is_set_back then
    bound_ends()
  end
end
