-- include shards/member
-- include shards/whole
-- shards/save
-- Writes what this call has changed of members and group, and lets the keys live.
--
-- uses     donors, ends, group, index, is_changed, key_count, members, newest, now_us, proven, rows, server_us, state, takers, write_group, write_members
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
  write_members()
  state.keys, state.newest = key_count(), is_changed and newest() or state.newest
  write_group()
  if renews then
    renew_keys() -- behind the writes, which may have made them
  end
end
