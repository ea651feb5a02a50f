-- include shards/balance
-- include shards/index
-- include shards/reap
-- include shards/resize
-- include shards/save
-- shards/work
-- What each call does at its end, 16 shards at the most: shards of the dead, drains that took too
-- long, names that left, free shards, uneven loads. Then it writes, and publishes.
--
-- uses     balance, budget, channel, concerned, find, grant_free, index, is_changed, now_us, read_member, read_row, reap, release_shard, replace_set, rows, save, state, verb
-- defines  end_drains, finish, forget_names, is_unfinished, work

-- Drains that took longer than the limit end without their owner. The limit counts from when the
-- owner has heard that it was asked. One that does not hear it has its lease.
local function end_drains()
  while state.drain > 0 and budget > 0 do
    local first = find('h', 1)[1]
    local since, shard = string.match(first or '', '^h:(%d+):(.*)$')
    if not first or now_us - tonumber(since) <= state.drain then
      return
    end
    local row = read_row(shard)
    concerned[row.owner] = true
    release_shard(shard, row, 'r')
    budget = budget - 1
  end
end
local function forget_names()
  while state.gone > 0 and budget > 0 do
    local first = find('g', 1)[1]
    local version, shard = string.match(first or '', '^g:(%d+):(.*)$')
    if first and now_us - tonumber(version) <= GONE_ROW_US then
      return
    elseif first then
      redis.call('ZREM', index, first, 'v:' .. version .. ':' .. shard)
      redis.call('HDEL', rows, shard)
      state.began, is_changed = math.max(state.began, tonumber(version)), true
      budget = budget - 1
    end
    state.gone = first and state.gone - 1 or 0
  end
end
-- Writes what this call has changed, and publishes to the members that are concerned. The caller
-- reads that in its reply.
local function finish(caller)
  save()
  for owner in pairs(concerned) do
    local member = owner ~= caller and read_member(owner)
    if member then
      redis.pcall(verb, channel .. string.sub(member.id, 1, SESSION_LENGTH), owner)
    end
  end
end
local function work()
  reap()
  end_drains()
  forget_names()
  if state.resize > 0 then
    replace_set()
  else
    grant_free()
    balance()
  end
end
local function is_unfinished()
  return budget <= 0 and 1 or 0
end
