-- include queue/now
-- shards/group
-- What the group's hash says: each field is a number, 0 if missing, and agreed_set is a text. A
-- call changes them, and write_group writes those that differ. Versions, tokens and numbers of
-- members are one sequence: the group's time, or one more than the last if that is not later.
--
-- uses     group, now
-- defines  agreed_set, budget, decimal, digits, drains_before, fields, group_time, hung_before, is_group, next_version, now_us, server_us, set_stored, slow_before, state, stored, write_group
local fields = {
  'count', 'names', 'next', 'version', 'quiet', 'quiet_end', 'last', 'server', 'amnesty', 'first_grant', 'calm', 'moves', 'drain',
  'free', 'wake', 'crashes', 'crashed', 'resize', 'asked', 'began', 'changed', 'gone', 'kept', 'made', 'set_at', 'known',
  'names_due', 'newest', 'round_at',
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
-- What a stamp of the server's clock is in the group's time.
local function group_time(stamp)
  return stamp + now_us - server_us
end
local budget = SHARDS_A_CALL -- how many shards this call may grant, ask for or take from the dead still
local function digits(number)
  return string.format('%016.0f', tonumber(number))
end
local function decimal(number)
  return string.format('%.0f', number)
end
-- What hangs delays no other move: a drain of more than 10 s is slow, and is no move under way any
-- more. One of more than a minute hangs, and its shard counts no more for the member that it is
-- promised to; earlier that would cost moves. After an outage each has as long again.
local function drains_before(us)
  return digits(now_us < state.amnesty + us and 0 or now_us - us)
end
local slow_before, hung_before = drains_before(SLOW_DRAIN_US), drains_before(HUNG_DRAIN_US)
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
