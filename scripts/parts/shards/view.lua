-- include shards/index
-- include shards/text
-- shards/view
-- What an observer reads of a group: texts has rows, and list members.
--
-- uses     began, count_of, digits, find_after, list_rows, members, members_seen, named, parse_row, rows, seen, shard, state
-- defines  is_restart, list, more, moving, texts, unowned, version, view_members, view_rows, view_shard, write_member, write_row
local version, texts, list, more, is_restart = seen, '', {}, 0, false
local moving, unowned = count_of('a'), count_of('f') + count_of('w')
if state.names == 0 then
  unowned = unowned + state.count - state.next
end
local function write_row(row, name)
  return row.version .. (row.owner == NO_STAMP and row.since or row.token) .. row.owner .. row.promised .. row.state .. named(row, name)
end
local function write_member(owner, record, label)
  local next_state, weight, limit, id = string.match(record, '^(%l) (%d+) (%d+) %d+ %-?%d+ %d %w+ %d+ %d+ (.+)$')
  if id then
    list[#list + 1] = owner .. id .. next_state .. string.sub(digits(weight), -WEIGHT_DIGITS) .. string.sub(digits(limit), -LIMIT_DIGITS) .. (label or '00')
  end
end
local function view_shard()
  local text = redis.call('HGET', rows, shard)
  local row = text and parse_row(text)
  if row then
    local owner = redis.call('HMGET', members, row.owner, row.owner .. ':')
    texts = write_row(row, shard)
    write_member(row.owner, owner[1] or '', owner[2])
  end
end
-- A caller begins anew if it has read too little of what is forgotten, and if it has read what the
-- server lost: a version that is still to come would hide what has one before it.
local function view_rows()
  local start = seen
  if digits(state.began) ~= began and seen < digits(state.began) or seen > digits(state.version) then
    is_restart, start = seen ~= NO_STAMP, NO_STAMP
  end
  local found = find_after('(v:' .. start .. ';', 'v', ROWS_PAGE)
  local last
  texts, last = list_rows(found, '^v:%d+:(.*)$', write_row)
  version, more = last and last.version or start, #found == ROWS_PAGE and 1 or 0
end
local function view_members()
  if digits(state.changed) == members_seen then
    return
  end
  local all, records = redis.call('HGETALL', members), {}
  for n = 1, #all, 2 do
    records[all[n]] = all[n + 1]
  end
  for owner, record in pairs(records) do
    write_member(owner, record, records[owner .. ':'])
  end
end
