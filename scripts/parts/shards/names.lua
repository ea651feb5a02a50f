-- include shards/balance
-- include shards/grant
-- include shards/row
-- shards/names
-- The names of a set that has some, as s:<name> in the index.
--
-- uses     after, digits, index, last, names, new_row, now_us, read_row, remove_shard, request, rows, set_free, state, write_row
-- defines  add_name, at, change_names, listed, order, remove_name
local listed, order, at = {}, {}, 1
while at <= #names do
  local length = tonumber(string.sub(names, at, at + 1))
  local name = string.sub(names, at + 2, at + 1 + length)
  assert(length > 0 and length <= MAX_SHARD_NAME and #name == length, 'bad argument')
  listed[name], order[#order + 1], at = true, name, at + 2 + length
end
assert(last == '1' or order[1], 'bad argument')

local function add_name(name)
  local row = read_row(name)
  redis.call('ZADD', index, 0, 's:' .. name)
  if row and row.state == 'x' then
    -- Asking is final: it is released, and granted again.
    row.state = 'a'
    write_row(name, row)
    return
  end
  if row then
    state.gone = state.gone - 1
  end
  state.count = state.count + 1
  row = row or new_row(now_us)
  row.losses, row.since, row.bans = '0', digits(now_us), ''
  set_free(name, row, 'f')
end
local function remove_name(name)
  local row = read_row(name)
  redis.call('ZREM', index, 's:' .. name)
  if not row then
    return
  end
  if row.owner == NO_STAMP then
    remove_shard(name, row)
  elseif row.state == 'a' then
    row.state, row.promised = 'x', NO_STAMP
    write_row(name, row)
  else
    request(name, row, 'x')
  end
end
-- Returns whether no name has to change any more.
local function change_names()
  local changes = MAX_NAME_CHANGES
  if last == 'a' then
    -- A name that has left the set was not lost, as long as that is known.
    for _, name in ipairs(order) do
      if changes > 0 and not redis.call('HGET', rows, name) then
        add_name(name)
        changes = changes - 1
      end
    end
    return changes > 0
  end
  local start, till = '(s:' .. after, last == '1' and '(s;' or '[s:' .. order[#order]
  local found = redis.call('ZRANGE', index, start, till, 'BYLEX', 'LIMIT', 0, #order + changes)
  local is_there = {}
  for _, entry in ipairs(found) do
    local name = string.sub(entry, 3)
    is_there[name] = true
    if not listed[name] and changes > 0 then
      remove_name(name)
      changes = changes - 1
    end
  end
  for _, name in ipairs(order) do
    if not is_there[name] and changes > 0 then
      add_name(name)
      changes = changes - 1
    end
  end
  return changes > 0
end
