-- include shards/member
-- include shards/whole
-- shards/save
-- Writes what this call has changed of members and group, and lets the keys live.
--
-- uses     decimal, donors, ends, group, index, is_changed, members, now_us, proven, rows, server_us, state, takers, write_group, write_members, write_newest
-- defines  renew_keys, save
local function renew_keys()
  redis.call('PEXPIRE', group, GROUP_TTL_MS)
  redis.call('PEXPIRE', members, GROUP_TTL_MS)
  redis.call('PEXPIRE', ends, GROUP_TTL_MS)
  redis.call('PEXPIRE', donors, GROUP_TTL_MS)
  redis.call('PEXPIRE', takers, GROUP_TTL_MS)
  redis.call('PEXPIRE', proven, GROUP_TTL_MS)
  redis.call('PEXPIRE', rows, GROUP_TTL_MS)
  redis.call('PEXPIRE', index, GROUP_TTL_MS)
end
local function save()
  local renews = is_changed or now_us - state.kept > RENEW_KEYS_US
  state.last, state.server, state.kept = now_us, server_us, renews and now_us or state.kept
  if write_members() or is_changed then
    write_newest()
  end
  redis.call('ZADD', ends, decimal(2 * server_us), NEWEST) -- later than any end
  write_group()
  if renews then
    renew_keys() -- behind the writes, which may have made them
  end
end
