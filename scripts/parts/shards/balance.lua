-- include shards/grant
-- include shards/index
-- shards/balance
-- Grants what is free, and lets shards move until no move makes the loads more even.
--
-- uses     budget, count_of, decimal, donors, find, find_last, first_taker, grant_or_free, is_banned, new_row, next_version, now_us, read_member, read_row, state, write_row
-- defines  balance, grant_free, may_be_free, may_move, moving, next_free, request, request_one, turn_over

-- Returns a shard that no member owns, and its row: one that waits until now, one that was
-- released, or the next one of a count that never had an owner.
local function next_free()
  if state.wake > 0 and now_us >= state.wake then
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
    return decimal(state.next - 1), new_row()
  end
end
local function may_be_free()
  return state.free == 1 or state.wake > 0 and now_us >= state.wake or state.names == 0 and state.next < state.count
end
local function grant_free()
  if now_us < state.first_grant then
    return
  end
  while budget > 0 and may_be_free() and first_taker() do
    local shard, row = next_free()
    if not shard then
      return
    end
    grant_or_free(shard, row, row.losses ~= '0')
    budget = budget - 1
  end
end

-- Turns a promise of the donor over to the taker, which moves nothing. One that was made by hand,
-- which is of class 0, stays as long as the donor does.
local function turn_over(donor, taker)
  local member = read_member(donor)
  for _, entry in ipairs(find('p:' .. donor, MAX_BANS)) do
    local shard = string.match(entry, '^p:%d+:(.*)$')
    local row = read_row(shard)
    local by_hand = row.class == '0' and member and member.state == 'l'
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
local moving -- how many shards are asked for
local function may_move()
  if now_us < state.quiet then
    return false
  end
  moving = moving or count_of('a')
  local most = state.moves > 0 and state.moves or math.max(MIN_MOVES, math.floor(state.count / MOVES_PART))
  return moving < most
end
-- Asks for the donor's youngest shard that is not banned from the taker.
local function request_one(donor, taker)
  local last = find_last('k:' .. donor, MAX_BANS)
  for _, entry in ipairs(last) do
    local shard = string.match(entry, '^k:%d+:%d+:(.*)$')
    local row = read_row(shard)
    if not taker or not is_banned(row, taker) then
      row.class, moving = '1', moving and moving + 1
      request(shard, row, 'a', taker)
      return true
    end
  end
  return false
end
local function balance()
  while budget > 0 do
    local donor, score = unpack(redis.call('ZRANGE', donors, 0, 0, 'REV', 'WITHSCORES'))
    score = tonumber(score)
    local taker = donor and first_taker(score)
    local gives_all = donor and score >= GIVES_ALL
    if not taker and not gives_all or taker == donor then
      return
    end
    if not turn_over(donor, taker) and not ((gives_all or may_move()) and request_one(donor, taker)) then
      return
    end
    budget = budget - 1
  end
end
