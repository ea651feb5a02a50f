-- include shards/balance
-- include shards/index
-- include shards/requested
-- shards/reap
-- Takes the shards of members whose lease has ended. A member is over from the first one on. An end
-- without a member, as after an old copy of the members, is one, too: else its shards have no owner.
--
-- uses     budget, count_of, decimal, donors, drop_requested, ends, find, first_taker, group_time, is_changed, lose_shard, members, members_read, next_version, now, now_us, proven, read_member, read_row, set_state, state, takers, turn_over
-- defines  each_owned, end_member, reap, reap_member, remove_if_done, remove_member, withdraw_member
local function remove_member(owner, member)
  redis.call('HDEL', members, owner, owner .. ':', member and member.id or owner)
  redis.call('ZREM', ends, owner)
  redis.call('ZREM', donors, owner)
  redis.call('ZREM', takers, owner)
  redis.call('ZREM', proven, owner)
  members_read[owner], state.changed, is_changed = false, tonumber(next_version()), true
end
-- A member that has ended is removed when it owns nothing and is promised nothing. Returns how many
-- shards are left.
local function remove_if_done(owner, member)
  local left = count_of('n:' .. owner) + count_of('p:' .. owner)
  if left == 0 and members_read[owner] then
    remove_member(owner, member)
  end
  return left
end
local function end_member(owner, member, till)
  if member.state == 'l' or member.state == 'p' then
    if now_us - tonumber(owner) < CRASH_LOOP_US then
      state.crashes, state.crashed = math.min(state.crashes + 1, 4), now_us
    end
  end
  if member.state ~= 'e' and member.state ~= 'd' then
    set_state(owner, member, 'd')
    drop_requested(owner, member) -- first, since its shards may have names that leave the set
    redis.call('ZADD', ends, decimal(-till), owner) -- a renewal finds it ended, also if the clock is set back
  end
end
-- Promises to a member that owns nothing any more are turned over to others, and it is removed after
-- the last.
local function withdraw_member(owner, member)
  while budget > 0 do
    if not turn_over(owner, first_taker()) and not turn_over(owner) then
      return remove_member(owner, member)
    end
    budget = budget - 1
  end
end
-- Calls take for each shard that a member owns, for as many as this call may still change.
local function each_owned(owner, take)
  for _, entry in ipairs(find('n:' .. owner, budget)) do
    local shard = string.match(entry, '^n:%d+:%d+:(.*)$')
    take(shard, read_row(shard))
    budget = budget - 1
  end
end
local function reap_member(owner, member, till)
  if member then
    end_member(owner, member, till)
  end
  each_owned(owner, function(shard, row)
    lose_shard(shard, row, member and member.state == 'd', group_time(till))
  end)
  if budget > 0 then
    withdraw_member(owner, member)
  end
end
local function reap()
  if now_us < state.amnesty then
    return
  end
  -- The end of a member that is over, or was ended by force, is negative, so that no renewal finds it.
  local after, before = '(-' .. now, '(' .. now
  while budget > 0 do
    local found = redis.call('ZRANGE', ends, after, before, 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')
    local owner = found[1]
    if not owner then
      return
    end
    reap_member(owner, read_member(owner), math.abs(found[2]))
  end
end
