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

-- include lock/longest

local left = {}
for n, holder in ipairs(KEYS) do
  local value = redis.pcall('GET', holder)
  left[n] = -2
  if type(value) == 'string' and string.sub(value, 1, 4) == 'sb1q' and #value >= WAITER_END and #value <= WAITER_END + MAX_TAIL then
    local noted_waiter = string.sub(value, ID_END + 1, WAITER_END)
    if noted_waiter == NO_WAITER or noted_waiter == string.sub(value, ID_START, SESSION_END) then
      redis.pcall('SET', holder, string.sub(value, 1, ID_END) .. waiter .. string.sub(value, WAITER_END + 1), 'KEEPTTL')
    end
    left[n] = redis.call('PTTL', holder)
    if left[n] < 0 or left[n] > longest_ms(value) then
      left[n] = longest_ms(value)
      redis.pcall('PEXPIRE', holder, left[n])
    end
  end
end
return left
