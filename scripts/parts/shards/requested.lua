-- include shards/index
-- shards/requested
-- The count that members wish: c:<count>:<number> in the index, for each that has polled. A count
-- that all wish, and that was not wished by all before, replaces the set.
--
-- uses     count_of, find, index, state
-- defines  drop_requested, read_requested
local function read_requested()
  local first = find('c', 1)[1]
  local requested = string.match(first or '', '^c:(%d+):')
  if requested and state.names == 0 and state.resize == 0 and tonumber(requested) ~= state.requested
    and count_of('c:' .. requested) == count_of('c') then
    state.requested = tonumber(requested)
    state.resize = state.requested ~= state.count and state.requested or 0
  end
end
local function drop_requested(owner, member)
  redis.call('ZREM', index, 'c:' .. member.requested .. ':' .. owner)
  read_requested()
end
