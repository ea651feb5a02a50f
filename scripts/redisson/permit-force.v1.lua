-- redisson/permit-force v1
-- Ends permits by force, as Redisson's RPermitExpirableSemaphore has them: those that are held,
-- once. Sent again it finds them gone.
--
-- KEYS[1]  permits   text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  verb            PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[2]  channel         on which waiters listen
-- ARGV[3]  forced_channel  of a session, for its holds that end by force, without the 8 digits that
--          it ends with
-- ARGV[4]  sessions        8 hexadecimal digits of each session that may have some of them, with a
--          blank between
-- ARGV[5]  ids             of the permits, 16 bytes each
-- returns  {released}  how many of them were held
--          an error    the server's refusal: the permits are as they were
-- effects  writes KEYS; publishes how many are free to channel, and KEYS[2] to forced_channel of
--          each of the sessions, if some were released
-- cost     O(ids log permits): GET, ZCARD, ZMSCORE, ZREM, INCRBY, and the messages
local permits, timeouts = KEYS[1], KEYS[2]
local verb, channel, forced_channel, sessions, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(#ids > 0 and #ids % 16 == 0, 'bad argument')

-- include redisson/notify
-- include redisson/permits

local released = 0
if foreign or held == 0 then
  return {released}
end
local all = {}
for n = 1, #ids, 16 do
  all[#all + 1] = string.sub(ids, n, n + 15)
end
local scores = redis.call('ZMSCORE', timeouts, unpack(all))
released = redis.call('ZREM', timeouts, unpack(all))
if released == 0 then
  return {released}
end
-- If the number was lost, the next acquire writes it anew.
if free then
  local written = redis.pcall('INCRBY', permits, released)
  if type(written) == 'table' then
    for n, id in ipairs(all) do
      if scores[n] then
        redis.call('ZADD', timeouts, scores[n], id) -- not counted: it is held still
      end
    end
    return written
  end
  if written > 0 then
    notify(verb, channel, string.format('%.0f', written))
  end
end
for session in string.gmatch(sessions, '%S+') do
  -- By the bus: whatever node the holder's session listens at.
  redis.pcall('PUBLISH', forced_channel .. session, timeouts)
end
return {released}
