-- include shards/grant
-- include shards/index
-- shards/balance
-- Grants what is free, and lets shards move until no move makes the loads more even.
--
-- uses     budget, count_after, count_of, decimal, donors, find, find_after, find_last, first_taker, grant_or_free, hung_before, index, is_banned, is_recent, list_rows, may_grant, new_row, next_version, now_us, read_member, read_row, slow_before, state, takers, write_row
-- defines  balance, find_movable, grant_free, is_due, may_be_free, may_move, move_one, moving, next_free, others_of, request, request_one, searches, turn, turn_over

local function is_due()
  return state.wake > 0 and now_us >= state.wake
end
-- Returns a shard that no member owns, and its row: one that waits until now, one that was
-- released, or the next one of a count that never had an owner.
local function next_free()
  if is_due() then
    local first = find('w', 1)[1]
    local till, shard = string.match(first or '', '^w:(%d+):(.*)$')
    state.wake = tonumber(till or 0)
    if till and state.wake <= now_us then
      return shard, read_row(shard)
    end
  end
  if state.free == 1 then
    local first = find('f', 1)[1]
    if first then
      local shard = string.match(first, '^f:%d+:(.*)$')
      return shard, read_row(shard)
    end
    state.free = 0
  end
  if state.names == 0 and state.next < state.count then
    state.next = state.next + 1
    return decimal(state.next - 1), new_row(state.began)
  end
end
local function may_be_free()
  return state.free == 1 or is_due() or state.names == 0 and state.next < state.count
end
local function grant_free()
  if not may_grant() then
    return
  end
  -- A share that is due is for its member, which is no taker if it has its limit with that share.
  while budget > 0 and may_be_free() and (is_due() or first_taker()) do
    local shard, row = next_free()
    if not shard then
      return
    end
    grant_or_free(shard, row, row.losses ~= '0')
    budget = budget - 1
  end
end

-- Turns a promise of the donor over to the taker, which moves nothing. While the donor lives, one
-- of a drain that hangs counts for no member, and one that was made by hand, which is of class 0,
-- stays.
local function turn_over(donor, taker)
  local member = read_member(donor)
  local is_live = member and member.state == 'l'
  local start = '[p:' .. donor .. ':' .. (is_live and hung_before or '')
  for _, entry in ipairs(find_after(start, 'p:' .. donor, SEARCH_FIRST)) do
    local shard = string.match(entry, '^p:%d+:%d+:(.*)$')
    local row = read_row(shard)
    local by_hand = is_live and row.class == '0'
    if not by_hand and not (taker and is_banned(row, taker)) then
      row.promised = taker or NO_STAMP
      write_row(shard, row)
      return true
    end
  end
  return false
end
local function request(shard, row, next_state, taker)
  row.state, row.version, row.promised = next_state, next_version(), taker or NO_STAMP
  write_row(shard, row)
end
local moving -- how many shards were asked for lately
local searches = MAX_SEARCHES -- how many that find no shard this call may do still
local function may_move()
  if now_us < state.quiet or not may_grant() then
    return false
  end
  if not moving then
    moving = count_after('[a:' .. slow_before, 'a')
  end
  local most = state.moves > 0 and state.moves or math.max(MIN_MOVES, math.floor(state.count / MOVES_PART))
  return moving < most
end
-- Returns a number below of. It is another one each tenth of a second, and numbers of different steps,
-- which are irrational, come in all combinations.
local function turn(of, step)
  return math.floor(math.floor(now_us / NEXT_TURN_US) * step % 1 * of)
end
-- Returns the donor's youngest shard that is not banned from the taker. If the youngest few are, it
-- reads a page more, which is another one at each turn.
local function find_movable(donor, taker)
  for _, entry in ipairs(find_last('k:' .. donor, SEARCH_FIRST)) do
    local shard = string.match(entry, '^k:%d+:%d+:(.*)$')
    local row = read_row(shard)
    if not taker or not is_banned(row, taker) then
      return shard, row
    end
  end
  local pages = math.ceil(count_of('k:' .. donor) / SHARDS_PAGE)
  local page = turn(pages, GOLDEN_STEP)
  local start, finish = '[k:' .. donor .. ':', '(k:' .. donor .. ';'
  local found, last = redis.call('ZRANGE', index, finish, start, 'BYLEX', 'REV', 'LIMIT', page * SHARDS_PAGE, SHARDS_PAGE), nil
  list_rows(found, '^k:%d+:%d+:(.*)$', function(row, shard)
    if not last and not is_banned(row, taker) then
      last = shard
    end
    return ''
  end)
  return last, last and read_row(last)
end
local function request_one(donor, taker)
  if searches == 0 then
    return nil
  end
  local shard, row = find_movable(donor, taker)
  if shard then
    row.class, moving = '1', moving and moving + 1
    request(shard, row, 'a', taker)
  else
    searches = searches - 1
  end
  return shard
end
-- Returns which of so many takers or donors a search reads behind the first: others at each turn.
-- The first element of either key is no member: see shards/whole.
local function others_of(size, step)
  local start = 2 + turn(math.max(size - 1 - SEARCH_OTHERS, 1), step)
  return start, start + SEARCH_OTHERS - 1
end
-- Whether a step made the loads more even, by a shard from the donor to the best taker that may
-- have one of its shards; nil if no taker has less than the donor, or enough shards move already.
local function move_one(donor, score)
  local gives_all = score >= GIVES_ALL
  local taker = first_taker(score)
  if taker == donor or not taker and not gives_all then
    return nil
  end
  if turn_over(donor, taker) then
    return true
  end
  if not gives_all and not may_move() then
    return nil
  end
  if request_one(donor, taker) then
    return true
  end
  local start, finish = others_of(redis.call('ZCARD', takers), SQRT2_STEP)
  local others = redis.call('ZRANGE', takers, start, finish, 'WITHSCORES')
  for n = 1, #others, 2 do
    if others[n] ~= donor and tonumber(others[n + 1]) < score and is_recent(others[n]) and request_one(donor, others[n]) then
      return true
    end
  end
  return false
end
-- The donors that have most come first. One that gives nothing, since its shards are banned from
-- all takers, keeps no other from giving.
local function balance()
  while budget > 0 do
    local found = redis.call('ZRANGE', donors, 1, 1, 'REV', 'WITHSCORES')
    local has_moved = found[1] and move_one(found[1], tonumber(found[2]))
    if has_moved == false then
      local start, finish = others_of(redis.call('ZCARD', donors), SQRT3_STEP)
      found = redis.call('ZRANGE', donors, start, finish, 'REV', 'WITHSCORES')
      for n = 1, #found, 2 do
        has_moved = has_moved or move_one(found[n], tonumber(found[n + 1]))
      end
    end
    if not has_moved then
      return
    end
    budget = budget - 1
  end
end
