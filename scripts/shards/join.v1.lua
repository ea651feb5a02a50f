-- shards/join v1
-- Joins a group, or makes it if it is not there. It grants nothing: the first poll makes a member
-- of the caller. Sent again with the same id it returns the same number.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  donors  sorted set: see shards/poll v1
-- KEYS[5]  takers  sorted set: see shards/poll v1
-- KEYS[6]  proven  sorted set: see shards/poll v1
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  id  session (22) and attempt (19), fresh for each join
-- ARGV[2]  not_after  stamp: later than that nothing is done
-- ARGV[3]  lease_us  of the member
-- ARGV[4]  weight  1 to 1,000
-- ARGV[5]  limit  the shards that it takes at most, 65,536 if there is no limit
-- ARGV[6]  count  the shards that it requests, 1 to 65,536; 0 if they have names
-- ARGV[7]  exact  1 refuses a group with another count, else 0
-- ARGV[8]  calm_us  for how long after a join no owned shard is asked for
-- ARGV[9]  moves  how many moves may be under way in the group, 0 if it is not said
-- ARGV[10]  drain_us  for how long an owner that was asked may keep its shard, 0 for ever
-- ARGV[11]  old  number of a member that this process has lost, and its greatest token (16); or ''
-- ARGV[12]  label  what the caller is called, 0 to 64 bytes
-- ARGV[13]  value  what observers read, 0 to 256 bytes
-- ARGV[14]  mode  l takes shards, p is paused
-- ARGV[15]  requested  the count, or the digest of the names that it requests: 64 bytes; 0 for none
-- ARGV[16]  known  what shards/poll returned of the group last, or ''
-- returns  {1, number, now, life_us, count, is_restored}  it has joined; its lease lasts for
--            life_us from now, count is that of the set. is_restored is 1 if the server has lost
--            the group of known, and no caller has told it another set since: it has the count of
--            known again, and names come back from the members that had the shards
--          {-1, now}  later than not_after
--          {-2, other}  the key is no group's ('?')
--          {-5, count, names}  exact, and there is another count; or names is 1 and it said a
--            count, or the reverse
-- effects  writes the KEYS, and the group's settings; publishes nothing
-- cost     O(log members): TIME, HMGET, HGET three times, ZSCORE five times, HSET five times, ZADD six
--          times, ZREM, PEXPIRE eight times; more if it makes the group, or names an old number
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, not_after, lease_us, weight, limit, count, exact, calm_us, moves, drain_us, old, label, value, mode, requested, known = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13], ARGV[14], ARGV[15], ARGV[16]
assert(string.find(table.concat({lease_us, weight, limit, count, calm_us, moves, drain_us}, ' '), '^[1-9]%d* [1-9]%d* %d+ %d+ %d+ %d+ %d+$')
  and lease_us + calm_us + drain_us < MAX_NUMBER and weight - MAX_MEMBER_WEIGHT <= 0 and limit - MAX_SHARDS <= 0 and count - MAX_SHARDS <= 0 and moves - MAX_SHARDS <= 0
  and #id == ID_LENGTH and #old % STAMP_LENGTH == 0 and #label <= MAX_LABEL and string.len(value) <= MAX_VALUE
  and string.find(mode, '^[lp]$') and string.find(requested, '^%w+$') and #requested <= MAX_SHARD_NAME and (known == '' or string.len(known) >= KNOWN_LENGTH and string.len(known) <= KNOWN_LENGTH + MAX_SHARD_NAME and string.find(known, '^%d+%w*$')), 'bad argument')

-- include shards/group
if now > not_after then
  return {-1, now}
end
if not is_group and redis.call('EXISTS', group) == 1 then
  return {-2, '?'}
end

-- include shards/whole
-- include shards/save
-- include shards/requested
-- include shards/restore
-- If the server's clock was set back before it lost the group, the group's time continues from
-- the greatest token that the caller has seen, since members take no smaller one; and not before
-- its set was set, so that a later one is later.
local last_seen = 0
for _, stamp in ipairs({string.sub(old, STAMP_LENGTH + 1), string.sub(known, 1, STAMP_LENGTH), string.sub(known, STAMP_LENGTH + 1, 2 * STAMP_LENGTH)}) do
  last_seen = math.max(last_seen, tonumber(stamp) or 0)
end
if last_seen > now_us then
  -- By a part of a second that is this join's own: others have seen the same, and a group that was
  -- made of it before, and lost again, has given its numbers to members that are still there.
  last_seen = last_seen + tonumber(string.sub(redis.sha1hex(id), 1, 5), 16)
  if now_us < state.first_grant then
    state.first_grant = last_seen + FIRST_GRANT_US
  end
  state.amnesty, now_us = last_seen + AMNESTY_US, last_seen
end
if is_group then
  if (state.names == 1) ~= (count == '0') or exact == '1' and tonumber(count) ~= state.count and count ~= '0' then
    return {-5, state.count, state.names}
  end
else
  make_group(count)
end
local is_restored = restore()
state.calm, state.moves, state.drain = tonumber(calm_us), tonumber(moves), tonumber(drain_us)

old = string.sub(old, 1, STAMP_LENGTH)
local lost = old ~= '' and read_member(old)
if lost and string.sub(lost.id, 1, SESSION_LENGTH) == string.sub(id, 1, SESSION_LENGTH) and lost.state ~= 'd' and lost.state ~= 'e' then
  set_state(old, lost, 'e')
  drop_requested(old, lost)
end

local number = redis.call('HGET', members, id)
local member = number and read_member(number)
if not member or member.state == 'd' or member.state == 'e' then
  number = next_version()
  member = {state = mode == 'p' and 'q' or 'j', weight = tonumber(weight), limit = tonumber(limit), lease = tonumber(lease_us), ranked = 0, load = 0, is_proven = '0', requested = requested, seen = NO_STAMP, said = '0', id = id, is_dirty = true}
  members_read[number], is_changed = member, true
  local text = string.sub(digits(#label), -2) .. label .. value
  redis.call('HSET', members, id, number, number .. ':', text)
end
-- A join that is sent again lengthens the life, since its caller counts from the last one sent.
local life_us = math.min(member.lease, YOUNG_LIFE_US)
redis.call('ZADD', ends, 'GT', digits(server_us + life_us), number)
save()
return {1, number, now, life_us, state.count, is_restored}
