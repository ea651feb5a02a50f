-- election/put v1
-- Writes the value of a term, and notifies the observers. Only the hold that leads writes it, and a
-- late copy overwrites no later value of the same term. Any number of times.
--
-- KEYS[1]  holder  string: see lock/enter v1
-- KEYS[2]  leader  string: 'sb1e', id (41), number (16), value; see README.md
-- ARGV[1]  id  of the hold, 41 characters
-- ARGV[2]  number  16 digits: a later value of the term has a greater one
-- ARGV[3]  text  the value, 0 to 4096 bytes
-- ARGV[4]  keep_ms  how long KEYS[2] is kept unless it is written again
-- ARGV[5]  verb  PUBLISH or SPUBLISH
-- ARGV[6]  channel  on which observers listen
-- returns  {1}   the term has this value, or a later one
--          {0}   the hold has the lock no more; nothing was written
--          {-2}  KEYS[2] is not an election's; nothing was written
-- effects  writes KEYS[2]; publishes number if the value is new
-- cost     O(1): GET twice, PTTL, SET or PEXPIRE, and the message
local holder, leader = KEYS[1], KEYS[2]
local id, number, text, keep_ms, verb, channel = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
assert(string.find(keep_ms, '^[1-9]%d*$') and tonumber(keep_ms) < MAX_NUMBER, 'bad argument')

-- include lock/time-left
if other or string.sub(hold, 1, ID_LENGTH) ~= id or left_us == 0 then
  return {0}
end

-- include election/record
if is_foreign then
  return {-2}
end
if writer == id and last_number >= number then
  redis.call('PEXPIRE', leader, keep_ms)
  return {1}
end
redis.call('SET', leader, 'sb1e' .. id .. number .. text, 'PX', keep_ms)
redis.pcall(verb, channel, number)
return {1}
