-- include shards/member
-- shards/save
-- Writes what this call has changed of members and group, and lets the keys live.
--
-- uses     donors, ends, group, index, is_changed, members, now_us, proven, rows, state, takers, write_group, write_members
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
  state.kept = now_us
end
local function save()
  write_members()
  state.last = now_us
  if is_changed or now_us - state.kept > RENEW_KEYS_US then
    renew_keys()
  end
  write_group()
end
