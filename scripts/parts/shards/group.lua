-- include queue/now
-- shards/group
-- What the group's hash says: each field is a number, 0 if missing, and agreed_set is a text. A
-- call changes them, and write_group writes those that differ. Versions, tokens and numbers of
-- members are one sequence: the group's time, or one more than the last if that is not later.
--
-- uses     group, now
-- defines  agreed_set, budget, decimal, digits, fields, is_group, next_version, now_us, server_us, set_stored, slow_before, state, stored, write_group
local fields = {
  'count', 'names', 'next', 'version', 'quiet', 'quiet_end', 'last', 'server', 'amnesty', 'first_grant', 'calm', 'moves', 'drain',
  'free', 'wake', 'crashes', 'crashed', 'resize', 'asked', 'began', 'changed', 'gone', 'kept', 'keys', 'made', 'set_at', 'known',
  'names_due',
}
local stored, state = redis.call('HMGET', group, 'agreed_set', unpack(fields)), {}
local set_stored = table.remove(stored, 1)
local agreed_set = set_stored or ''
for n, field in ipairs(fields) do
  state[field] = tonumber(stored[n] or 0)
end
local is_group = stored[1] and true
-- The group's time is the server's. If that is set back the group's time runs on, at half speed,
-- until the server's has come so far: so all that waits for a time waits twice as long at the most,
-- whatever the step was. Leases alone end by the server's time, since holds/renew knows no other.
local server_us = tonumber(now)
local now_us = math.max(server_us, state.last + math.floor(math.max(server_us - state.server, 0) / 2))
-- If no script ran for 3 s, the server was away, or its clock jumped: no member is taken for dead
-- before all could come back.
if is_group and server_us - state.server > SILENCE_US then
  state.amnesty = now_us + AMNESTY_US
end
local budget = SHARDS_A_CALL -- how many shards this call may grant, ask for or take from the dead still
local function digits(number)
  return string.format('%016.0f', tonumber(number))
end
local function decimal(number)
  return string.format('%.0f', number)
end
-- A drain that takes longer than 10 s counts neither as a move under way nor for the load of the
-- member that the shard is promised to, so what hangs delays no other move. After an outage it has
-- as long again.
local slow_before = digits(now_us < state.amnesty + SLOW_DRAIN_US and 0 or now_us - SLOW_DRAIN_US)
local function next_version()
  state.version = math.max(state.version + 1, now_us)
  return digits(state.version)
end
local function write_group()
  local changes = {}
  for n, field in ipairs(fields) do
    if state[field] ~= tonumber(stored[n] or -1) then
      changes[#changes + 1], changes[#changes + 2] = field, decimal(state[field])
    end
  end
  if agreed_set ~= (set_stored or '') then
    changes[#changes + 1], changes[#changes + 2] = 'agreed_set', agreed_set
  end
  if changes[1] then
    redis.call('HSET', group, unpack(changes))
  end
end
