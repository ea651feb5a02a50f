-- shards/sync v1
-- Makes a part of the names of a group what the caller says: those behind after, up to the last of
-- names. Names that are missing come, others leave; the shards of all that stay are not touched.
-- Any number of times. A round over all names ends when the next one begins.
--
-- KEYS[1]  group  hash: see shards/poll v1
-- KEYS[2]  members  hash: see shards/poll v1
-- KEYS[3]  ends  sorted set: see shards/poll v1
-- KEYS[4]  donors  sorted set: see shards/poll v1
-- KEYS[5]  takers  sorted set: see shards/poll v1
-- KEYS[6]  proven  sorted set: see shards/poll v1
-- KEYS[7]  rows  hash: see shards/poll v1
-- KEYS[8]  index  sorted set by lex: see shards/poll v1
-- ARGV[1]  id  of this round over all names: session (22) and attempt (19), later for a later round
-- ARGV[2]  digest  of all names, 1 to 64 bytes: the first part ends the round if the group has it. If
--          names come and none leaves: when a caller gave the group the set that had them, as known of
--          shards/poll begins (16). None comes if a caller has given it another set since
-- ARGV[3]  since  of the first part: '' if a caller lists the names. If all members request them a
--          stamp: a round that began later counts, and so does a set that a caller gave later. Of a
--          later part what the reply to the first one had for begun
-- ARGV[4]  after  '', or the last name of the part before
-- ARGV[5]  names  128 at most, in the order of their bytes: length (2) and name of each
-- ARGV[6]  last  1 if this part goes to the end of all names, else 0; a if names come and none
--          leaves, which is no round over all names
-- ARGV[7]  not_after  stamp: later than that nothing is done
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of news, without the session that it ends with
-- returns  {1, now, more, is_whole, begun}  done; is_whole is 1 if the round is over, also if
--            another one has begun since, which counts. It is 0 for the last part if the server has
--            lost the round: begin again. more is 1 if a poll is due at once, and begun is when the
--            round began
--          {2, now, more, 0, begun}  64 names have changed, and others have to: send this part again
--          {0, now}  no group
--          {-1, now}  later than not_after
--          {-5, count, names}  the group has a count
-- effects  writes the KEYS; publishes number to the channels of the sessions whose members are
--          concerned
-- cost     O(names log n): TIME, HMGET twice, HGET four times, ZSCORE five times, ZRANGE four times,
--          ZADD five times, ZREM, HSET four times; about 5 for each name that comes, and 15 for one that
--          leaves; up to 16 shards' work more
local group, members, ends, donors, takers, proven, rows, index = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local id, digest, since, after, names, last, not_after, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9]
assert(#id == ID_LENGTH and #digest <= MAX_SHARD_NAME and string.find(since, '^%d*$') and #after <= MAX_SHARD_NAME and (last ~= 'a' or string.find(digest, '^%d+$')), 'bad argument')

-- include shards/work
-- include shards/names

if now > not_after then
  return {-1, now}
end
if not is_group then
  return {0, now}
end
if state.names == 0 then
  return {-5, state.count, state.names}
end
-- The set is that of all names. What members request by now is not requested again.
local function confirm()
  state.set_at, state.known, state.asked = tonumber(next_version()), 0, 0
  agreed_set = common_set() or agreed_set
end
if last ~= 'a' and redis.call('HGET', group, 'digest') == digest then
  if state.asked > 0 or state.known > 0 then
    confirm()
    save()
  end
  return {1, now, 0, 1, digits(state.round_at)}
end
local round, former = unpack(redis.call('HMGET', group, 'round', 'former'))
local is_overtaken = round and since < digits(state.round_at)
if last == 'a' then
  if state.set_at > tonumber(digest) then
    return {1, now, 0, 1, NO_STAMP}
  end
  local listed = redis.call('HGET', group, 'digest')
  if listed == NO_DIGEST or listed == OTHER_DIGEST then
    redis.call('HDEL', group, 'round') -- it begins again, and says whether these names stay
  end
  redis.call('HDEL', group, 'digest')
elseif after == '' and round ~= id then
  -- A first part that is late begins no round: its session has begun a later one, or it is sent
  -- again behind the one that began next. Nor one that members request, if a caller came since.
  local is_late = round and (round > id and string.sub(round, 1, SESSION_LENGTH) == string.sub(id, 1, SESSION_LENGTH) or former == id)
  if is_late or since ~= '' and (is_overtaken or since < digits(state.set_at)) then
    return {1, now, 0, 1, digits(state.round_at)}
  end
  state.round_at = tonumber(next_version())
  redis.call('HSET', group, 'round', id, 'former', round or '')
elseif round ~= id then
  -- A round that began before is one that the server had, and has again: it has lost this one.
  return {1, now, 0, is_overtaken and 1 or 0, since}
end
if last ~= 'a' and after == '' then
  redis.call('HSET', group, 'digest', NO_DIGEST)
end
local is_done = change_names()
local is_whole = 0
if is_done and last == '1' then
  if redis.call('HGET', group, 'digest') == NO_DIGEST then
    redis.call('HSET', group, 'digest', digest)
  else
    redis.call('HDEL', group, 'digest') -- a name has left by itself meanwhile
  end
  is_whole = 1
  confirm()
end
work()
finish('')
local begun = digits(state.round_at)
if not is_done then
  return {2, now, is_unfinished(), 0, begun}
end
return {1, now, is_unfinished(), is_whole, begun}
