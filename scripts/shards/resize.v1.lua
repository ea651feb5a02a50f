-- shards/resize v1
-- Replaces the set of a group by one of another count: every shard is asked for, and none of the
-- new set is granted before all of the old one are released. Any number of times.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  donors  sorted set: see shards/poll v1
-- KEYS[5]  takers  sorted set: see shards/poll v1
-- KEYS[6]  proven  sorted set: see shards/poll v1
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  known  the count, 1 to 65,536, behind what the last reply had for set_at (16) if it is
--            sent again: if a caller has given the group another set since, that one counts. Or what
--            shards/poll returned of the group, of a later set than it returns now: the server has
--            lost that set, and has it again
-- ARGV[2]  id  of the caller's request: session (22) and attempt (19). Once it was executed it
--          changes nothing when it is sent again, since its reply was lost
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  verb  PUBLISH or SPUBLISH
-- ARGV[5]  channel  of news, without the session that it ends with
-- returns  {1, now, more, left, set_at}  left shards of the old set have an owner; the new set is
--            there if it is 0, or another one that counts. more is 1 if a poll is due at once, and
--            set_at is the stamp of the set
--          {0, now}  no group
--          {-1, now}  later than not_after
--          {-5, count, names}  the shards of the group have names
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned
-- cost     O(log n): TIME, HMGET twice, HGET twice, ZSCORE five times, ZRANGE three times, ZLEXCOUNT,
--          ZADD five times, ZREM, HSET four times; about 15 for each shard that is asked for, of
--          which a call does 16; at the end UNLINK, and ZADD for each member
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local known, id, not_after, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local is_again = string.len(known) > STAMP_LENGTH and string.len(known) < KNOWN_LENGTH
local count = is_again and string.sub(known, STAMP_LENGTH + 1) or string.len(known) < KNOWN_LENGTH and known
assert(#id == ID_LENGTH, 'bad argument')
assert(not count and string.find(known, '^%d+%w*$') and string.len(known) <= KNOWN_LENGTH + MAX_SHARD_NAME
  or count and string.find(count, '^[1-9]%d*$') and count - MAX_SHARDS <= 0, 'bad argument')

-- include shards/work
-- include shards/restore

if now > not_after then
  return {-1, now}
end
if not is_group then
  return {0, now}
end
if count and state.names == 1 then
  return {-5, state.count, state.names}
end
local replaces = tonumber(count) ~= state.count and tonumber(count) or 0
local last, former = unpack(redis.call('HMGET', group, 'resize_id', 'former_resize'))
local is_overtaken = is_again and string.sub(known, 1, STAMP_LENGTH) < digits(state.set_at) or id == former
if not count then
  restore()
elseif not is_overtaken and id ~= last then
  redis.call('HSET', group, 'resize_id', id, 'former_resize', last or '')
  if replaces ~= state.resize then
    state.resize, state.set_at = replaces, tonumber(next_version())
  end
end
local set_at = digits(state.set_at) -- before what members request replaces the new set
work()
finish('')
local left = 0
if state.resize > 0 and not is_overtaken then
  left = count_of('n')
end
return {1, now, is_unfinished(), left, set_at}
