-- include shards/member
-- include shards/text
-- shards/row
-- Rows of shards. The state of a row is o owned; a, x, r asked for, because it moves, its name
-- leaves the set, or the set is replaced; f free; w free, and waits; g gone from the set. All that
-- depends on a row, which is the index and the loads, is written by write_row and nowhere else.
--
-- uses     change_load, concerned, digits, hung_before, index, is_changed, parse_row, read_member, row_text, rows, state
-- defines  entries, loads_of, new_row, read_row, wake_at, write_row

-- The members of the index that a row has:
--   n:<owner>:<version>:  what a member owns, by what it has not seen yet
--   k:<owner>:<class><version>:  what it owns and was not asked for; class 0 is asked for last
--   a:<version>:  asked for            p:<promised>:<version>:  promised
--   h:<till>:  asked for, and its owner has heard that, if drains have a limit
--   f:<since>:  free                   w:<till>:  and u:<since>:  waits
--   g:<version>:  gone                 v:<version>:  each, for observers
local function entries(shard, row)
  local list = {'v:' .. row.version .. ':' .. shard}
  if row.promised ~= NO_STAMP then
    list[2] = 'p:' .. row.promised .. ':' .. row.version .. ':' .. shard
  end
  if row.owner ~= NO_STAMP then
    list[#list + 1] = 'n:' .. row.owner .. ':' .. row.version .. ':' .. shard
  end
  if row.state == 'o' then
    list[#list + 1] = 'k:' .. row.owner .. ':' .. row.class .. row.version .. ':' .. shard
  elseif row.owner ~= NO_STAMP then
    list[#list + 1] = 'a:' .. row.version .. ':' .. shard
    if row.till ~= '0' then
      list[#list + 1] = 'h:' .. row.till .. ':' .. shard
    end
  elseif row.state == 'w' then
    list[#list + 1], list[#list + 2] = 'w:' .. row.till .. ':' .. shard, 'u:' .. row.since .. ':' .. shard
  elseif row.state == 'f' then
    list[#list + 1] = 'f:' .. row.since .. ':' .. shard
  else
    list[#list + 1] = row.state .. ':' .. row.version .. ':' .. shard
  end
  return list
end
-- Which members' loads a row counts for: its owner's if the shard was not asked for, and that of
-- the member that it is promised to if the drain does not hang. The third is the member in whose
-- limit the row counts besides.
local function loads_of(row)
  local is_owned = row.state == 'o'
  return {is_owned and row.owner or NO_STAMP, row.version >= hung_before and row.promised or NO_STAMP, is_owned and NO_STAMP or row.owner}
end

-- A shard has been without an owner since it came into the set, until it has one.
local function new_row(since)
  return {
    state = 'f', owner = NO_STAMP, version = NO_STAMP, token = NO_STAMP, promised = NO_STAMP,
    class = '1', losses = '0', till = '0', since = digits(since), bans = '', had = {}, counted = {NO_STAMP, NO_STAMP, NO_STAMP},
  }
end
local function read_row(shard)
  local text = redis.call('HGET', rows, shard)
  if not text then
    return nil
  end
  local row = parse_row(text)
  row.had, row.counted = entries(shard, row), loads_of(row)
  return row
end
local function wake_at(till)
  state.wake = state.wake == 0 and till or math.min(state.wake, till)
end
local function write_row(shard, row)
  local counts = loads_of(row)
  for n = 1, 3 do
    read_member(counts[n]) -- its load, before the index changes
    read_member(row.counted[n])
  end
  local added = {}
  for _, entry in ipairs(entries(shard, row)) do
    added[#added + 1], added[#added + 2] = 0, entry
  end
  if row.had[1] then
    redis.call('ZREM', index, unpack(row.had))
  end
  redis.call('ZADD', index, unpack(added))
  redis.call('HSET', rows, shard, row_text(row))
  for n = 1, 3 do
    if counts[n] ~= row.counted[n] then
      change_load(row.counted[n], n < 3 and -1 or 0)
      change_load(counts[n], n < 3 and 1 or 0)
    end
  end
  row.had, row.counted = entries(shard, row), counts
  if row.state == 'f' then
    state.free = 1
  elseif row.state == 'w' then
    wake_at(tonumber(row.till))
  end
  concerned[row.owner], is_changed = true, true
end
