-- redlock/poll v1
-- Checks whether one server's parts of locks are free, for a session that waits for them, and notes
-- the session as the waiter if there is no other.
--
-- KEYS[n]  holder  string: see redlock/acquire v1; one of every lock that is checked
-- ARGV[1]  waiter  session (22) that wants a message at the release
-- returns  {left_ms, ...}  by key: until the holder's key ends, or -2 if trying is worth it
-- effects  writes the waiter into the KEYS; publishes nothing
-- cost     O(keys): GET and PTTL each, and SET for the first waiter
local waiter = ARGV[1]

local left = {}
for n, holder in ipairs(KEYS) do
  local value = redis.pcall('GET', holder)
  left[n] = -2
  if type(value) == 'string' and string.sub(value, 1, 4) == 'sb1q' and #value >= 83 and #value <= 147 then
    local noted_waiter = string.sub(value, 62, 83)
    if noted_waiter == '----------------------' or noted_waiter == string.sub(value, 21, 42) then
      redis.pcall('SET', holder, string.sub(value, 1, 61) .. waiter .. string.sub(value, 84), 'KEEPTTL')
    end
    left[n] = redis.call('PTTL', holder)
  end
end
return left
