-- redisson/timeout
-- The key that says until when the n-th hold of a reader lasts, which Redisson keeps beside the
-- hash: in its slot.
--
-- uses     nothing
-- defines  timeout_key
local function timeout_key(lock, field, n)
  local base = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
  return base .. ':' .. field .. ':rwlock_timeout:' .. string.format('%.0f', n)
end
