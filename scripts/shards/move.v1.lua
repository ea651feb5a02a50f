-- shards/move v1
-- Promises a shard to a member, and asks its owner for it; a shard that no member owns is granted.
-- Nothing moves by force, and loads that it makes uneven are made even by other shards.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  donors  sorted set: see shards/poll v1
-- KEYS[5]  takers  sorted set: see shards/poll v1
-- KEYS[6]  proven  sorted set: see shards/poll v1
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  shard  its index, or its name
-- ARGV[2]  number  of the member that is to have it
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  verb  PUBLISH or SPUBLISH
-- ARGV[5]  channel  of news, without the session that it ends with
-- returns  {1, now, more}  it is the member's, or promised to it; more is 1 if a poll is due at
--            once
--          {0, now}  no such shard, or one that never had an owner or leaves the set; or no member
--            that may take it: one that has its limit, or has given the shard away for longer
--          {-1, now}  later than not_after
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned
-- cost     O(log n): TIME, HMGET, HGET four times, ZSCORE five times, ZLEXCOUNT twice, ZRANGE three
--          times, ZADD five times, ZREM, HSET three times; about 20 for each shard that moves
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local shard, number, not_after, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(#number == STAMP_LENGTH, 'bad argument')

-- include shards/work

if now > not_after then
  return {-1, now}
end
local member, row = is_group and read_member(number), is_group and read_row(shard)
if not row or not member or member.state ~= 'l' or string.find(row.state, '[xrg]') or state.resize > 0 or now_us < state.first_grant then
  return {0, now}
end
if row.state == 'o' and row.owner == number then
  return {1, now, 0}
end
if row.promised ~= number and (not has_room(number, member, 0) or is_banned(row, number)) then
  return {0, now}
end
row.class = '0'
if row.state == 'o' then
  request(shard, row, 'a', number)
elseif row.state == 'a' or row.promised == number then
  row.promised = number
  write_row(shard, row)
else
  grant(shard, row, number, '0')
end
work()
finish('')
return {1, now, is_unfinished()}
