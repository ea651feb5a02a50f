-- lock/free
-- Leaves the lock free, with the floor of its tokens. The mark stays if a queue may exist. If
-- memory is full the DEL, which takes none, makes the server accept what follows.
--
-- uses     holder, keep_ms
-- defines  set_free
local function set_free(floor, keeps_mark)
  local text, ms = 'sb1-' .. floor, keep_ms
  if keeps_mark then
    text, ms = 'sb1l' .. floor .. string.rep('-', TICKET_LENGTH) .. 'q', QUEUE_TTL_MS
  end
  if redis.pcall('SET', holder, text, 'PX', ms)['err'] then
    redis.call('DEL', holder)
    redis.pcall('SET', holder, text, 'PX', ms)
  end
end
