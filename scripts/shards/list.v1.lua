-- shards/list v1
-- Describes a group and its members, for people and tools. It says nothing about who may work: a
-- lease does.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  _donors  not used
-- KEYS[5]  _takers  not used
-- KEYS[6]  _proven  not used
-- KEYS[7]  _rows  not used
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  most  how many members are listed at the most
-- returns  {1, now, count, unowned, unowned_since, draining, draining_since, size, list}  size is
--            how many members there are, and unowned_since and draining_since are those of the
--            first shard, zeros if there is no such shard; list has of each member, in the order in
--            which their leases end: number, id, state, when its lease ends, how many shards it
--            owns, label, value. Shards of a member whose lease has ended are unowned.
--          {0, now}  no group
--          {-2, other}  the key is no group's ('?')
-- effects  none
-- cost     O(members): TIME, HMGET, ZCARD, ZLEXCOUNT three times, ZRANGE four times; HMGET and
--          ZLEXCOUNT for each member that is listed
local group, members, ends, _donors, _takers, _proven, _rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local most = ARGV[1]
assert(string.find(most, '^[1-9]%d*$'), 'bad argument')

-- include shards/group
-- include shards/list

if not is_group then
  if redis.call('EXISTS', group) == 1 then
    return {-2, '?'}
  end
  return {0, now}
end

list_unowned()
list_members()
return {1, now, state.count, unowned, digits(server_stamp(unowned_since)), draining, digits(server_stamp(draining_since)), size, list}
