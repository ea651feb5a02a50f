-- shards/leave v1
-- Ends a membership: the member gets no shard any more, and those that it owns are promised to
-- others. Called again after the last one was released it frees the grants that the member never
-- heard of, and removes it. Any number of times.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  donors  sorted set: see shards/poll v1
-- KEYS[5]  takers  sorted set: see shards/poll v1
-- KEYS[6]  proven  sorted set: see shards/poll v1
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  number  of the member
-- ARGV[2]  done  1 if none of its functions runs, and none will; else 0
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of news, without the session that it ends with
-- returns  {1, now, more, left}  left shards are its own or promised to it; 0: it is removed. more
--            is 1 if a poll is due at once
--          {0, now}  no member
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned, except this one
-- cost     O(log n): TIME, HMGET, HGET three times, ZSCORE five times, PEXPIRE, ZLEXCOUNT four
--          times, ZRANGE five times, ZADD five times, ZREM, HSET four times; about 20 for each shard
--          that is asked for or freed, of which a call does 16
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, done, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(#number == STAMP_LENGTH and string.find(done, '^[01]$'), 'bad argument')

-- include shards/work

local member = is_group and read_member(number)
if not member or member.state == 'd' then
  return {0, now}
end
-- It takes no memory: what follows is not refused if memory is full.
redis.call('PEXPIRE', group, GROUP_TTL_MS)
if member.state ~= 'g' and member.state ~= 'e' then
  set_state(number, member, 'g')
  drop_requested(number, member)
end
if done == '1' then
  each_owned(number, function(shard, row)
    row.state = row.state == 'o' and 'a' or row.state -- it cannot go to and fro, so the next owner need not wait
    release_shard(shard, row, 'd', 0)
  end)
end
work()
if not find('n:' .. number, 1)[1] then
  withdraw_member(number, member) -- also promises of drains that hang, for which no load counts
end
local left = remove_if_done(number, member)
finish(number)
return {1, now, is_unfinished(), left}
