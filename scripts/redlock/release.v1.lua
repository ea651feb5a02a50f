-- redlock/release v1
-- Releases one server's part of a lock, also that of an acquire whose outcome its sender does not
-- know, and notifies the waiter that the key names.
--
-- KEYS[1]  holder  string: see redlock/acquire v1
-- ARGV[1]  id  of the hold, 41 characters
-- ARGV[2]  floor  stamp that is not before the hold's token; zeros if no caller got one
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  on which waiters listen
-- ARGV[5]  keep_ms  how long the floor is kept
-- returns  {0, now}  this hold does not have it; now is the server's time, a stamp
--          1         released
-- effects  writes KEYS[1]: the floor stays for keep_ms; publishes 8 characters of the session to
--          channel if the key names a waiter of another session
-- cost     O(1): GET, SET, and the message; not had: GET, TIME; if memory is full: GET, SET, DEL,
--          SET
local holder = KEYS[1]
local id, floor, verb, channel, keep_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]

local value = redis.call('GET', holder)
if not value or string.sub(value, 1, 4) ~= 'sb1q' or string.sub(value, ID_START, ID_END) ~= id then
  -- The time shows the sender whether an acquire that is still on its way can take effect after
  -- this: it cannot once its not-after is over.
  local time = redis.call('TIME')
  local now = time[1] .. string.sub('00000' .. time[2], -6)
  return {0, now}
end
if #floor ~= STAMP_LENGTH or string.find(floor, '%D') or string.sub(value, STAMP_START, STAMP_END) > floor then
  floor = string.sub(value, STAMP_START, STAMP_END)
end
-- A SET is refused if memory is full. DEL never is, nor is what follows the first write.
local kept = redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
if kept['err'] then
  redis.call('DEL', holder)
  redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
end
local noted_waiter = string.sub(value, ID_END + 1, WAITER_END)
if noted_waiter ~= NO_WAITER and noted_waiter ~= string.sub(id, 1, SESSION_LENGTH) then
  redis.pcall(verb, channel, string.sub(id, 1, 8))
end
return 1
