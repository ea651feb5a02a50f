-- include shards/row
-- include shards/taker
-- shards/grant
-- Granting shards, and what becomes of a shard that its owner has no more.
--
-- uses     bans_left, count_of, decimal, digits, ends, first_taker, group, group_time, has_room, hung_before, index, is_banned, is_present, is_recent, next_version, now_us, rank, read_member, state, taker_of, waits_for, write_row
-- defines  forget_digest, grant, grant_or_free, heir_of, is_kept, lose_shard, may_grant, release_shard, released_at, remove_shard, set_free, wait_until
local function grant(shard, row, owner, class)
  row.version = next_version()
  row.state, row.owner, row.token, row.promised, row.class, row.till = 'o', owner, row.version, NO_STAMP, class, '0'
  write_row(shard, row)
end
local function set_free(shard, row, next_state, till, promised)
  row.version = next_version()
  row.state, row.owner, row.promised, row.till = next_state, NO_STAMP, promised or NO_STAMP, till or '0'
  write_row(shard, row)
end

local function wait_until(till, shard, row, heir)
  if waits_for(row, heir) then
    row.till = till -- it waits since its version
    return write_row(shard, row)
  end
  set_free(shard, row, 'w', till, heir)
end

-- A promise is kept if the member has room for it: after an outage one of a drain that hung counts
-- again, and the member has taken another shard for it. While it hangs only one by hand is kept.
local function is_kept(row, promised)
  local counted = row.version >= hung_before and 1 or 0
  return (counted == 1 or row.class == '0') and has_room(row.promised, promised, counted)
end
-- Returns the member that a shard is for: the one that it is promised to, or the best taker. A
-- promise to a member that is silent is kept while the server was away, and passes to another else.
local function heir_of(row, is_lost)
  local promised = row.promised ~= NO_STAMP and read_member(row.promised)
  if promised and promised.state == 'l' and row.version < hung_before and promised.ranked ~= promised.load then
    rank(row.promised, promised) -- since its last poll the drain hangs, and counts no more
  end
  if promised and promised.state == 'l' and is_kept(row, promised) and not is_banned(row, row.promised) and (now_us < state.amnesty or is_recent(row.promised)) then
    return row.promised
  end
  return taker_of(row, is_lost)
end
-- Not in a new group, nor while the set is replaced, or its names are on their way.
local function may_grant()
  local awaits_names = state.asked > 0 and now_us < state.names_due
  return now_us >= state.first_grant and state.resize == 0 and not awaits_names
end
local function grant_or_free(shard, row, is_lost)
  local heir = may_grant() and heir_of(row, is_lost)
  local first
  row.bans, first = bans_left(row)
  if is_lost then
    row.class = '0'
  end
  if heir and (now_us < state.amnesty or is_present(heir, row, is_lost)) then
    return grant(shard, row, heir, row.class)
  end
  if heir then
    return wait_until(digits(now_us + NEXT_POLL_US), shard, row, heir)
  end
  if first and may_grant() and first_taker() then
    -- Each taker is banned. A member may join that is not, so it is looked at again, of all that
    -- wait 100 in a second.
    local again = digits(now_us + RECHECK_US + count_of('w') * RECHECK_EACH_US)
    return wait_until(again < first and again or first, shard, row, NO_STAMP)
  end
  set_free(shard, row, 'f')
end

local function remove_shard(shard, row)
  redis.call('ZREM', index, 's:' .. shard)
  state.count, state.gone, state.known = state.count - 1, state.gone + 1, math.max(state.known - 1, 0)
  set_free(shard, row, 'g')
end

-- A name leaves by itself: what a caller has listed is another set. While one lists it that is
-- noted, since no more is known of the names that came before.
local function forget_digest()
  local digest = redis.call('HGET', group, 'digest')
  if digest == NO_DIGEST then
    redis.call('HSET', group, 'digest', OTHER_DIGEST)
  elseif digest ~= OTHER_DIGEST then
    redis.call('HDEL', group, 'digest')
  end
end
-- When a shard has no owner any more that is released now: if the lease has ended before, since its end.
local function released_at(owner)
  local till = redis.call('ZSCORE', ends, owner)
  return till and math.min(now_us, group_time(math.abs(till))) or now_us
end
-- The owner has released a shard. Ending e keeps it from that member for pause_us, and so does u,
-- by which the member takes one less until it is set again: so no other shard moves to it. Ending d
-- is e of a grant that the member declines: the shard is as if no member had got it. Here and in
-- lose_shard begins the time without an owner, and nowhere else.
local function release_shard(shard, row, ending, pause_us)
  if row.state == 'x' or ending == 'x' and state.names == 1 then
    if ending == 'x' then
      forget_digest()
    end
    return remove_shard(shard, row)
  end
  if ending == 'u' and row.state == 'o' then
    local member = read_member(row.owner)
    member.limit = math.min(member.limit, member.load) - 1
  end
  if ending ~= 'd' then
    row.since, row.losses = digits(released_at(row.owner)), '0'
  end
  if string.find(ending, '[deu]') then
    row.bans = row.owner .. ':' .. digits(now_us + pause_us) .. ' ' .. row.bans
  end
  local again = row.state == 'o' and tonumber(row.token) + LEAST_OWNED_US
  row.class = row.state == 'o' and '1' or row.class
  if again and again > now_us then -- what is given away at once is granted once a second
    row.bans = bans_left(row)
    return set_free(shard, row, 'w', digits(again))
  end
  grant_or_free(shard, row, false)
end

-- The owner of a shard has died: its lease ended at since. From the third death in a row on the
-- shard waits, and longer each time. An owner that had it for long shows that it does no harm.
local function lose_shard(shard, row, is_counted, since)
  row.since = digits(since)
  if row.state == 'x' then
    return remove_shard(shard, row)
  end
  local losses = now_us - tonumber(row.token) < MAX_POISON_US and tonumber(row.losses) or 0
  if is_counted then
    losses = math.min(losses + 1, MAX_LOSSES)
  end
  row.losses = decimal(losses)
  if is_counted and losses >= 3 then
    local pause_us = math.min(POISON_US * 2 ^ (losses - 3), MAX_POISON_US)
    return set_free(shard, row, 'w', digits(now_us + pause_us))
  end
  grant_or_free(shard, row, true)
end
