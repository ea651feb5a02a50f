-- once/store v1
-- Stores the outcome of a run, if the hold under which the function ran still has the lock. It
-- overwrites no other outcome. Sent again under that hold, it changes nothing.
--
-- KEYS[1]  outcome  string: 'sb1o', stamp (16), the value; see README.md
-- KEYS[2]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- ARGV[1]  stamp  of the run's hold: that of its first token
-- ARGV[2]  keep_ms  how long the outcome is kept
-- ARGV[3]  value  0 bytes to 1 MiB
-- ARGV[4]  verb  PUBLISH or SPUBLISH
-- ARGV[5]  channel  on which sessions that wait for the outcome listen
-- ARGV[6]  id  of the run's hold, 41 characters: after a failover two holds may have one stamp
-- returns  {1}  it is stored, now or before
--          {0, value}  another run has stored its outcome
--          {0}  nothing is stored: another hold has the lock, or there is no hold
--          {-2}  the key is no outcome's
-- effects  writes KEYS[1] and publishes the stamp, unless it was stored before
-- cost     O(1): GET twice, SET and the message; GET if an outcome is stored
local outcome, holder = KEYS[1], KEYS[2]
local stamp, keep_ms, value, verb, channel, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
assert(string.find(keep_ms, '^[1-9]%d*$') and tonumber(keep_ms) < MAX_NUMBER and #id == ID_LENGTH, 'bad argument')

-- include once/outcome
if is_foreign then
  return {-2}
end
if text then
  if text == 'sb1o' .. stamp .. value then
    return {1}
  end
  return {0, string.sub(text, STAMP_END + 1)}
end

-- A hold is over when another one has the lock, or its key is gone. Until then no other run can
-- have begun. By pcall: a key of another type is another kind of lock.
local hold = redis.pcall('GET', holder)
if type(hold) ~= 'string' or string.sub(hold, 1, ID_END) ~= 'sb1l' .. stamp .. id then
  return {0}
end
redis.call('SET', outcome, 'sb1o' .. stamp .. value, 'PX', keep_ms)
redis.pcall(verb, channel, stamp)
return {1}
