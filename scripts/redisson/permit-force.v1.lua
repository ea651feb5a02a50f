-- redisson/permit-force v1
-- Ends permits by force, as Redisson's RPermitExpirableSemaphore has them: those that are held,
-- once. Sent again it finds them gone.
--
-- KEYS[1]  permits  text: see redisson/permit-acquire v1
-- KEYS[2]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  verb  PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[2]  channel  on which waiters listen
-- ARGV[3]  forced_channel  of a session, for its holds that end by force, without the 8 digits that
--          it ends with
-- ARGV[4]  sessions  8 hexadecimal digits of each session that may have some of them, with a blank
--          between
-- ARGV[5]  ids  of the permits, 16 bytes each
-- returns  {released}  how many of them were held
-- effects  writes KEYS, unless the count of free permits is refused; if some were released,
--          publishes how many are free to channel, and KEYS[2] to forced_channel of each of the
--          sessions
-- cost     O(ids log permits): GET, ZCARD, ZMSCORE, ZREM, INCRBY, and the messages
local permits, timeouts = KEYS[1], KEYS[2]
local verb, channel, forced_channel, sessions, ids = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
assert(#ids > 0 and #ids % PERMIT_LENGTH == 0, 'bad argument')

-- include redisson/permits
-- include redisson/release-permits

local released = 0
if is_foreign or held == 0 then
  return {released}
end
local all = {}
for n = 1, #ids, PERMIT_LENGTH do
  all[#all + 1] = string.sub(ids, n, n + (PERMIT_LENGTH - 1))
end
released = release_permits(all)
for session in string.gmatch(released > 0 and sessions or '', '%S+') do
  -- By the bus: whatever node the holder's session listens at.
  redis.pcall('PUBLISH', forced_channel .. session, timeouts)
end
return {released}
