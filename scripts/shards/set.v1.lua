-- shards/set v1
-- Sets what a member said when it joined. A paused member stays one and owns nothing: all that it
-- has is asked for. Any number of times.
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
-- ARGV[2]  weight  1 to 1,000
-- ARGV[3]  limit  the shards that it takes at most, 65,536 if there is no limit
-- ARGV[4]  mode  l takes shards, p is paused
-- ARGV[5]  value  what observers read, 0 to 256 bytes
-- ARGV[6]  said  the number of these settings, which rises with each change: what the member said
--          before, and is late, does nothing
-- ARGV[7]  verb  PUBLISH or SPUBLISH
-- ARGV[8]  channel  of news, without the session that it ends with
-- returns  {1, now, more}  done; more is 1 if a poll is due at once
--          {0, now}  no member, or one that leaves
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned, except this one
-- cost     O(log n): TIME, HMGET, HGET four times, ZSCORE five times, PEXPIRE nine times, ZLEXCOUNT
--          twice, ZADD six times, ZREM twice, ZRANGE three times, HSET five times; about 20 for each
--          shard that is asked for, of which a call does 16
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, weight, limit, mode, value, said, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8]
assert(string.find(weight .. ' ' .. limit, '^[1-9]%d* %d+$') and weight - MAX_MEMBER_WEIGHT <= 0 and limit - MAX_SHARDS <= 0
  and #number == STAMP_LENGTH and string.find(mode, '^[lp]$') and string.len(value) <= MAX_VALUE
  and string.find(said, '^%d+$') and tonumber(said) < MAX_NUMBER, 'bad argument')

-- include shards/work

local member = is_group and read_member(number)
if not member or not string.find(member.state, '[jqlp]') then
  return {0, now}
end
if tonumber(said) < tonumber(member.said) then
  return {1, now, 0}
end
member.said = said
-- It takes no memory: what follows is not refused if memory is full.
redis.call('PEXPIRE', group, GROUP_TTL_MS)
local text = redis.call('HGET', members, number .. ':')
local label = string.sub(text, 1, 2 + tonumber(string.sub(text, 1, 2)))
redis.call('HSET', members, number .. ':', label .. value)
member.weight, member.limit = tonumber(weight), tonumber(limit)
if string.find(member.state, '[jq]') then
  set_state(number, member, mode == 'p' and 'q' or 'j')
else
  set_state(number, member, mode)
end
work()
finish(number)
return {1, now, is_unfinished()}
