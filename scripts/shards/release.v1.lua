-- shards/release v1
-- Releases shards that a member owns, whose functions have returned, to the members that they are
-- promised to, or to others. Any number of times.
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
-- ARGV[2]  shards  16 at most: stamp of the token (16), ending (1), pause_us (15), length of the
--          name (2), name. Ending r is a release, e keeps the shard from this member for pause_us,
--          x takes the name out of the set, u is e of a member that takes no other shard for it, d
--          is e of a grant that the member declines
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of news, without the session that it ends with
-- returns  {1, now, more, ended}  ended has for each shard 1 if it is released, or 0 if the member
--            does not own it with that token; more is 1 if a poll is due at once
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned, except this one
-- cost     O(shards log n): TIME, HMGET, HGET twice, ZSCORE five times, PEXPIRE, ZRANGE three
--          times, ZADD five times, ZREM, HSET three times; about 20 for each shard, of which all
--          that a call does are 16
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, shards, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(#number == STAMP_LENGTH, 'bad argument')

-- include shards/released
-- include shards/work

if is_group then
  -- It takes no memory: what follows is not refused if memory is full.
  redis.call('PEXPIRE', group, GROUP_TTL_MS)
end
local ended = ''
for _, entry in ipairs(released) do
  local row = is_group and read_row(entry.name)
  local is_its = row and row.owner == number and row.token == entry.token
  if is_its then
    release_shard(entry.name, row, entry.ending, entry.pause_us)
    budget = budget - 1
  end
  ended = ended .. (is_its and '1' or '0')
end
if is_group then
  work()
  local member = read_member(number)
  if member and member.state == 'e' then
    remove_if_done(number, member)
  end
  finish(number)
end
return {1, now, is_unfinished(), ended}
