-- shards/end v1
-- Ends a membership by force: its lease is not renewed any more. The member learns it by a message,
-- or at its next poll, and releases its shards when their functions have returned. The others go to
-- members when its lease ends: so none has two live contexts.
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
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  of news, without the session that it ends with
-- returns  {1, now, more}  the membership ends; more is 1 if this call is to be sent again, since
--            the member has more shards than one call asks for
--          {0, now}  no member
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned, this one first
-- cost     O(log n): TIME, HMGET, HGET three times, PEXPIRE, ZSCORE six times, ZADD six times,
--          ZREM, ZLEXCOUNT twice, ZRANGE four times, HSET four times, PUBLISH; about 20 for each
--          shard, of which a call does 16
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, verb, channel = ARGV[1], ARGV[2], ARGV[3]
assert(#number == STAMP_LENGTH, 'bad argument')

-- include shards/work

local member = is_group and read_member(number)
if not member then
  return {0, now}
end
-- It takes no memory: what follows is not refused if memory is full.
redis.call('PEXPIRE', group, GROUP_TTL_MS)
if member.state ~= 'd' and member.state ~= 'e' then
  set_state(number, member, 'e') -- so that no shard counts as one whose owner died
  drop_requested(number, member)
end
local lease_end = tonumber(redis.call('ZSCORE', ends, number) or 0)
if lease_end > 0 then
  redis.call('ZADD', ends, decimal(-lease_end), number)
end
redis.pcall(verb, channel .. string.sub(member.id, 1, SESSION_LENGTH), number)
work()
remove_if_done(number, member)
finish(number)
return {1, now, is_unfinished()}
