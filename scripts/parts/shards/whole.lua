-- include shards/group
-- include shards/member
-- shards/whole
-- Whether all keys of a group are there, and of the same time. Each call that changes one gives the
-- same version to all, and ends has the time of the last call. A key that has another one was
-- deleted, or restored from an old copy. Ends and loads are made again of the members, whose leases
-- begin anew. Without another key the group is lost, and is made anew by the next join: it grants
-- nothing for two seconds, so that members of one that was lost learn of it first, and many that
-- start together all get shards.
--
-- uses     agreed_set, decimal, digits, donors, ends, fields, group, index, is_changed, is_group, members, next_version, now_us, proven, rank, read_member, rows, server_us, set_stored, state, stored, takers
-- defines  bound_ends, drop_group, each_member, make_group, mend_ends, mend_loads, write_newest
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
local function mend_loads()
  redis.call('UNLINK', donors, takers, proven)
  each_member(rank)
  is_changed = true
end
local function mend_ends()
  redis.call('UNLINK', ends)
  each_member(function(number, member)
    local last = member.state == 'd' and -server_us or server_us + member.lease
    redis.call('ZADD', ends, decimal(last), number)
  end)
  is_changed = true
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
local function write_newest()
  redis.call('ZREM', index, NEWEST_ENTRY .. digits(state.newest))
  local version = next_version()
  state.newest = tonumber(version)
  redis.call('ZADD', index, 0, NEWEST_ENTRY .. version)
  redis.call('HSET', members, NEWEST, version)
  redis.call('HSET', rows, NEWEST, version)
  redis.call('ZADD', donors, version, NEWEST) -- the last one
  redis.call('ZADD', takers, decimal(-state.newest), NEWEST) -- the first one
  redis.call('ZADD', proven, decimal(-state.newest), NEWEST)
end
if is_group then
  local version = digits(state.newest)
  if redis.call('HGET', members, NEWEST) ~= version or redis.call('HGET', rows, NEWEST) ~= version
    or not redis.call('ZSCORE', index, NEWEST_ENTRY .. version) then
    drop_group()
  else
    local has_ends = (redis.call('ZSCORE', ends, NEWEST) or 0) - 2 * state.server == 0
    local has_loads = (redis.call('ZSCORE', donors, NEWEST) or 0) - state.newest == 0
      and (redis.call('ZSCORE', takers, NEWEST) or 0) + state.newest == 0 and (redis.call('ZSCORE', proven, NEWEST) or 0) + state.newest == 0
    if not has_ends or not has_loads or server_us < state.server then
      -- It takes no memory: what follows is not refused if memory is full.
      redis.call('PEXPIRE', group, GROUP_TTL_MS)
    end
    if not has_loads then
      mend_loads()
    end
    if not has_ends then
      mend_ends()
    elseif server_us < state.server then
      bound_ends()
    end
  end
end
