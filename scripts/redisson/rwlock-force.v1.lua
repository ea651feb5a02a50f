-- redisson/rwlock-force v1
-- Ends holds by force, as Redisson's RReadWriteLock has it. Sent again it finds them gone.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[2]  channel  on which waiters listen
-- ARGV[3]  forced_channel  of a session, for its holds that end by force, without the session that
--          it ends with
-- ARGV[4]  holds  of each its session, and its field without :write; with a line feed behind either
-- returns  {taken}  how many of them had it
--          an error  the server's refusal
-- effects  writes KEYS[1] and the keys of the holds; publishes 0 or 1 to channel if no hold is
--          left, by the mode, and KEYS[1] to forced_channel of each session whose hold it ended
-- cost     O(holds): HMGET, HDEL, DEL each, and HLEN, DEL
local lock = KEYS[1]
local verb, channel, forced_channel, holds = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- include redisson/notify
-- include redisson/timeout

local taken, sessions = 0, {}
local mode = redis.pcall('HGET', lock, 'mode')
if type(mode) == 'table' and string.sub(mode['err'], 1, 9) ~= 'WRONGTYPE' then
  return mode
end
-- A hash without a mode is an RLock's. Java names the fields of both by client and thread.
if type(mode) ~= 'string' then
  return {taken}
end
for session, field in string.gmatch(holds, '([^\n]*)\n([^\n]*)\n') do
  -- Keys before fields: one may be refused while the slot moves, and this is sent again.
  for n = tonumber(redis.call('HGET', lock, field)) or 0, 1, -1 do
    local timeout = timeout_key(lock, field, n)
    redis.call('DEL', timeout)
  end
  if redis.call('HDEL', lock, field, field .. ':write') > 0 then
    taken = taken + 1
    sessions[session] = true
  end
end
if taken > 0 and redis.call('HLEN', lock) == 1 then
  redis.call('DEL', lock)
  notify(verb, channel, mode == 'write' and '1' or '0')
end
for session in pairs(sessions) do
  -- By the bus: whatever node the hold's session listens at.
  redis.pcall('PUBLISH', forced_channel .. session, lock)
end
return {taken}
