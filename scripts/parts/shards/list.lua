-- include shards/index
-- shards/list
-- What people and tools read of a group. Each since is the least of several stamps; 0 stands for
-- none. Shards of a member whose lease has ended are unowned.
--
-- uses     count_of, digits, ends, find, group_time, members, most, now_us, server_us, state
-- defines  draining, draining_since, first_of, least, list, list_member, list_members, list_unowned, server_stamp, size, unowned, unowned_since
local list, size, unowned_since, draining_since = {}, math.max(redis.call('ZCARD', ends) - 1, 0), 0, 0
local unowned, draining = count_of('f') + count_of('w'), count_of('a')
local function least(a, b)
  return (a == 0 or b > 0 and b < a) and b or a
end
-- What a stamp of the group's time is by the server's clock.
local function server_stamp(stamp)
  return math.max(stamp - (now_us - server_us), 0)
end
local function first_of(prefix)
  return tonumber(string.match(find(prefix, 1)[1] or '', '^%l:(%d+):') or 0)
end
local function list_unowned()
  unowned_since, draining_since = least(first_of('f'), first_of('u')), first_of('a')
  if state.names == 0 and state.next < state.count then -- shards that never had an owner
    unowned, unowned_since = unowned + state.count - state.next, least(unowned_since, state.began)
  end
end
local function list_member(number, till)
  local record = redis.call('HMGET', members, number, number .. ':')
  local member_state, id = string.match(record[1] or '', '^(%l) .* (%S+)$')
  if not id then
    return
  end
  local owned, text = count_of('n:' .. number), record[2] or '00'
  local label_end = 2 + string.sub(text, 1, 2)
  if till <= server_us and owned > 0 then
    unowned, unowned_since = unowned + owned, least(unowned_since, group_time(till))
  end
  for _, field in ipairs({number, id, member_state, digits(till), owned, string.sub(text, 3, label_end), string.sub(text, label_end + 1)}) do
    list[#list + 1] = field
  end
end
local function list_members()
  local page = redis.call('ZRANGE', ends, 0, most - 1, 'WITHSCORES')
  for n = 1, #page, 2 do
    list_member(page[n], math.abs(page[n + 1]))
  end
end
