-- redisson/rwlock-release v1
-- Releases a lock that a hold still has, to read or to write, as Redisson's RReadWriteLock has it,
-- and notifies the waiters if one may enter. It also undoes an acquire of unknown outcome.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  hold  56 characters
-- ARGV[2]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel  on which waiters listen
-- returns  {0, now}  this hold does not have the lock; now is the server's time, a stamp
--          {1, now}  it had, and released it
--          an error  the server's refusal
-- effects  writes KEYS[1] and the key of the hold; publishes 0 to channel behind the last reader,
--          and 1 behind a writer
-- cost     O(holds) at most: TIME, HGETALL, PTTL, and PTTL of the holds of others up to the first
--          that ends no sooner than the hash; HDEL, DEL, PEXPIRE or HSET
local lock = KEYS[1]
local hold, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include redisson/notify
-- include redisson/timeout

local fields = redis.pcall('HGETALL', lock)
if fields['err'] then
  if string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
    return fields
  end
  return {0, now}
end
-- All reads come before the first write. longest is for how long the holds of others keep the hash.
-- Those of a reader that died are still there, and keep it no longer than they would have lasted.
-- They count also if another program took away the end of the hash, or is ending it.
local mode, had, others, longest, lasts = '', nil, 0, 0, redis.call('PTTL', lock)
for i = 1, #fields, 2 do
  local field = fields[i]
  if field == 'mode' then
    mode = fields[i + 1]
  elseif field == hold or field == hold .. ':write' then
    had = field
  else
    others = others + 1
    for n = tonumber(fields[i + 1]) or 0, 1, -1 do
      if longest < lasts or longest == 0 or lasts < 0 then
        local timeout = timeout_key(lock, field, n)
        longest = math.max(longest, redis.call('PTTL', timeout))
      end
    end
  end
end
local timeout = timeout_key(lock, hold, 1)
if not had then
  redis.call('DEL', timeout)
  return {0, now}
end
if had ~= hold and others == 0 then
  redis.call('DEL', lock)
elseif had ~= hold then
  redis.call('HDEL', lock, had)
  redis.call('HSET', lock, 'mode', 'read')
elseif mode == 'read' and longest == 0 then
  redis.call('DEL', lock, timeout)
  notify(verb, channel, '0')
else
  -- The key before the field: it may be refused while the slot moves, and this is sent again.
  redis.call('DEL', timeout)
  redis.call('HDEL', lock, had)
  if longest > 0 then
    redis.call('PEXPIRE', lock, string.format('%.0f', longest))
  end
end
if had ~= hold then
  notify(verb, channel, '1')
end
return {1, now}
