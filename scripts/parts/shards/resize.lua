-- include shards/balance
-- include shards/index
-- include shards/requested
-- shards/resize
-- Replaces a set of a count: every shard is asked for, and when none has an owner the new set is
-- there.
--
-- uses     budget, find, index, is_changed, next_version, read_requested, read_row, request, rows, state, write_row
-- defines  install, replace_set, withdraw_promises
local function withdraw_promises()
  local promised = find('p', budget)
  for _, entry in ipairs(promised) do
    local shard = string.match(entry, '^p:%d+:%d+:(.*)$')
    local row = read_row(shard)
    row.promised = NO_STAMP -- also of a move by hand: each step ends one, so that the steps end
    write_row(shard, row)
    budget = budget - 1
  end
end
local function install()
  local entries_kept = find('c', -1)
  redis.call('UNLINK', index, rows)
  for _, entry in ipairs(entries_kept) do
    redis.call('ZADD', index, 0, entry)
  end
  state.count, state.next, state.free, state.wake, state.resize = state.resize, 0, 0, 0, 0
  state.began, is_changed = tonumber(next_version()), true
  read_requested() -- what all members request since then
end
local function replace_set()
  local owned = find('k', budget)
  for _, entry in ipairs(owned) do
    local shard = string.match(entry, '^k:%d+:%d+:(.*)$')
    request(shard, read_row(shard), 'r')
    budget = budget - 1
  end
  if budget > 0 then
    withdraw_promises()
  end
  if budget > 0 and not find('n', 1)[1] then
    install()
  end
end
