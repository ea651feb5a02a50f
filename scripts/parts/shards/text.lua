-- include shards/group
-- shards/text
-- Rows as they are stored, and as news and observers read them.
--
-- uses     digits, rows
-- defines  list_rows, named, parse_row, row_text
local function parse_row(text)
  local row = {}
  row.state, row.owner, row.version, row.token, row.promised, row.class, row.losses, row.till, row.since, row.bans =
    string.match(text, '^(%l) (%d+) (%d+) (%d+) (%d+) (%d) (%d+) (%d+) (%d+) ?(.*)$')
  return row
end
local function row_text(row)
  return table.concat({row.state, row.owner, row.version, row.token, row.promised, row.class, row.losses, row.till, row.since, row.bans}, ' ')
end
-- The end of each entry: losses, length of the name, name.
local function named(row, shard)
  return string.sub(digits(row.losses), -LOSSES_LENGTH) .. string.sub(digits(#shard), -2) .. shard
end
-- Returns the rows of entries of the index, in which pattern finds the name, each as write has it;
-- and the last row.
local function list_rows(found, pattern, write)
  local shards, list, last = {}, {}, nil
  for n, entry in ipairs(found) do
    shards[n] = string.match(entry, pattern)
  end
  local texts = shards[1] and redis.call('HMGET', rows, unpack(shards)) or {}
  for n, text in ipairs(texts) do
    last = text and parse_row(text)
    list[#list + 1] = last and write(last, shards[n]) or ''
    if #list == TEXTS_JOINED then
      list = {table.concat(list)} -- the stack of an embedded server has no room for all of them
    end
  end
  return table.concat(list), last
end
