-- include shards/index
-- include shards/text
-- shards/list
-- What people and tools read of a group. Each since is the least of several stamps; 0 stands for
-- none. Shards of a member whose lease has ended are unowned.
--
-- uses     count_of, digits, ends, find, list_rows, members, most, now_us, server_us, state
-- defines  draining, draining_since, least, list, list_member, list_members, list_unowned, server_stamp, size, unowned, unowned_since
local list, size, unowned_since, draining_since = {}, redis.call('ZCARD', ends), 0, 0
local unowned, draining = count_of('f') + count_of('w'), count_of('a')
local function least(a, b)
  return (a == 0 or b > 0 and b < a) and b or a
end
-- What a stamp of the group's time is by the server's clock.
local function server_stamp(stamp)
  return math.max(stamp - (now_us - server_us), 0)
end
local function list_unowned()
  local free, first = find('f', 1)[1], find('a', 1)[1]
  unowned_since = tonumber(string.match(free or '', '^f:(%d+):') or 0)
  draining_since = tonumber(string.match(first or '', '^a:(%d+):') or 0)
  list_rows(find('w', SHARDS_A_CALL), '^w:%d+:(.*)$', function(row)
    unowned_since = least(unowned_since, tonumber(row.version))
    return ''
  end)
end
local function list_member(number, till)
  local record = redis.call('HMGET', members, number, number .. ':')
  local member_state, id = string.match(record[1] or '', '^(%l) .* (%S+)$')
  if not id then
    return 0
  end
  local owned, text = count_of('n:' .. number), record[2] or '00'
  local label_end = 2 + string.sub(text, 1, 2)
  if till <= server_us and owned > 0 then
    unowned, unowned_since = unowned + owned, least(unowned_since, till + now_us - server_us)
  end
  for _, field in ipairs({number, id, member_state, digits(till), owned, string.sub(text, 3, label_end), string.sub(text, label_end + 1)}) do
    list[#list + 1] = field
  end
  return tonumber(number)
end
local function list_members()
  local first, page = 0, redis.call('ZRANGE', ends, 0, most - 1, 'WITHSCORES')
  for n = 1, #page, 2 do
    first = least(first, list_member(page[n], math.abs(page[n + 1])))
  end
  if state.names == 0 and state.next < state.count then -- shards that never had an owner
    unowned, unowned_since = unowned + state.count - state.next, least(unowned_since, first)
  end
end
