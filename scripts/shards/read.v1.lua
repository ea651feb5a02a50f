-- shards/read v1
-- Returns what changed in a group since the caller has read it, or one shard. It says nothing about
-- who may work: a lease does.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  _donors  not used
-- KEYS[5]  _takers  not used
-- KEYS[6]  _proven  not used
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  seen  the version of the last reply, or 16 zeros
-- ARGV[2]  began  what the last reply had for it, or 16 zeros
-- ARGV[3]  members_seen  the changed of the last reply, or 16 zeros
-- ARGV[4]  shard  one shard, or '' for all
-- returns  {1, now, version, more, began, count, names, unowned, moving, changed, rows, list, rest}
--            rows since seen; more is 1 if there are more
--          {2, now, version, more, began, count, names, unowned, moving, changed, rows, list, rest}
--            what the caller has read before is no more: these are the first rows
--          {0, now}  no group
--          each of rows has version (16), stamp of the token (16), or since when it has no owner,
--            owner (16), the member that it is promised to (16), state (1), losses (4), length (2)
--            and name; see README.md
--          each of list has number (16), id (41), state (1), weight (4), limit (5), length of
--            the label (2), label and value; there is no member if changed is members_seen
--          rest is two numbers of 16 digits, and members whose lease has ended: number (16) and
--          when it ended (16). These own nothing, whatever rows and list say. The first number is
--          by how many microseconds the stamps of rows are ahead of the server's clock, which was
--          set back; the second how many names the server has lost that no member has set again
-- effects  none
-- cost     O(log n): TIME, HMGET, ZRANGE twice, ZLEXCOUNT three times; HMGET with the rows, 512 at
--          the most; HGETALL if a member has changed
local group, members, ends, _donors, _takers, _proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local seen, began, members_seen, shard = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(#seen == STAMP_LENGTH and #began == STAMP_LENGTH and #members_seen == STAMP_LENGTH, 'bad argument')

-- include shards/group

if not is_group then
  return {0, now}
end

-- include shards/view
local changed = digits(state.changed)
if shard ~= '' then
  view_shard()
else
  view_rows()
  view_members()
end
local rest = digits(now_us - server_us) .. digits(math.max(state.known - state.count, 0))
-- No script may have taken their shards yet, nor ever will if no member is left.
local after, before = '(-' .. now, '(' .. now
local ended = redis.call('ZRANGE', ends, after, before, 'BYSCORE', 'WITHSCORES')
for n = 1, #ended, 2 do
  if #ended[n] == STAMP_LENGTH then -- holds/renew notes a long lease beside the members
    rest = rest .. ended[n] .. digits(math.abs(ended[n + 1]))
  end
end
if is_restart then
  return {2, now, version, more, digits(state.began), state.count, state.names, unowned, moving, changed, texts, list, rest}
end
return {1, now, version, more, digits(state.began), state.count, state.names, unowned, moving, changed, texts, list, rest}
