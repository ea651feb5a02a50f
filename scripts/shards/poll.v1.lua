-- shards/poll v1
-- A heartbeat of a member: it makes the lease last, takes the shards of the dead, grants what is
-- free, moves what makes the loads even, and returns what changed for the member since it has
-- seen. The first poll makes a member of what has joined.
--
-- KEYS[1]  group  hash: settings and state of the group, see README.md
-- KEYS[2]  members  hash: number -> record, number ':' -> label and value, id -> number
-- KEYS[3]  ends  sorted set: number -> when its lease ends
-- KEYS[4]  donors  sorted set: number -> twice its load less one by its weight
-- KEYS[5]  takers  sorted set: number -> twice its load and one by its weight
-- KEYS[6]  proven  sorted set: those of the takers that are older than 30 s
-- KEYS[7]  rows  hash: shard -> row
-- KEYS[8]  index  sorted set by lex: see README.md. Each key says of which version it is
-- ARGV[1]  number  of the member, as shards/join returned it
-- ARGV[2]  seen  the version of the last news that it has read, or 16 zeros
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of news, without the session that it ends with
-- returns  {1, now, life_us, more, count, news, known, wanted, read, said}  the lease lasts for
--            life_us from now; more is 1 if a poll is due at once; count is that of the set, and
--            known what shards/join takes if the server loses the group. wanted is 1 if the member
--            is to send its names, which all members request. read is about the shards that it owns
--            and that have not changed since seen: the version of the last change (16 zeros if it
--            owns none of them), and how many they are. said is that of the last shards/set, 0
--            before the first: if it is less than that, the server has lost what was set
--          {0, now}  no member, any more: what it owned is lost
--          news has version (16), stamp of the token (16), state (1), losses (4), length (2) and
--          name of each shard that changed: o it owns it, a asked for since another gets it, x
--          since the name leaves the set, r since the set is replaced
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned, except this one
-- cost     O(log members + log shards): TIME, HMGET twice, HGET, ZSCORE three times, ZRANGE five
--          times, ZLEXCOUNT, PEXPIRE, ZADD, HSET if the group is at rest; else twice as many again,
--          and up to 16 shards' work more
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local number, seen, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(#number == STAMP_LENGTH and #seen == STAMP_LENGTH, 'bad argument')

-- include shards/rest
local reply = rest()
if reply then
  return reply
end

-- include shards/work
-- include shards/news

local member = is_group and read_member(number)
if not member or member.state == 'd' or member.state == 'e' then
  return {0, now}
end

-- It takes no memory: what follows is not refused if memory is full.
redis.call('PEXPIRE', group, GROUP_TTL_MS)
-- If the server has lost writes and its clock is behind, the group's time continues from the latest
-- version that the caller has seen: members take no smaller token.
if tonumber(seen) > state.version then
  now_us = math.max(now_us, tonumber(seen))
end
local age = math.max(now_us - tonumber(number), 0)
local life_us = math.min(member.lease, YOUNG_LIFE_US + age)
redis.call('ZADD', ends, 'GT', digits(server_us + life_us), number)
polled_at[number] = now_us

if string.find(member.state, '[jq]') then
  begin_member(number, member)
end
if member.is_proven == '0' and age > PROVEN_US then
  member.is_proven, member.ranked = '1', -1
end
if member.ranked ~= member.load then
  rank(number, member)
end
if state.drain > 0 and seen > member.seen then
  mark_read(number, member, seen)
end
work()
local news, more = news_of(number, seen)
local wanted = request_names(member)
local count = state.resize > 0 and state.resize or math.max(state.count, state.known)
local known = digits(state.set_at) .. digits(state.made) .. string.sub(digits(count), -LIMIT_DIGITS) .. agreed_set
finish(number)
return {1, now, life_us, math.max(is_unfinished(), more), state.count, news, known, wanted, read_of(number, seen), tonumber(member.said)}
