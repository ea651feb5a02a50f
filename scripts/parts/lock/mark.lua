-- include lock/recall
-- include lock/time-left
-- lock/mark
-- Marks the key of a hold: a queue may exist. The key lives 15 seconds longer from here on. A
-- sender without the right to that changes nothing. A hold that may be idle is recalled, and one
-- that wants to learn of waiters of other sessions gets a message.
--
-- uses     hold, holder, recall, session, ttl_ms
-- defines  mark
local function mark()
  redis.call('SETRANGE', holder, MARK_AT - 1, 'q')
  if ttl_ms >= 0 and type(redis.pcall('PEXPIRE', holder, ttl_ms + GRACE_MS)) == 'table' then
    redis.call('SETRANGE', holder, MARK_AT - 1, '-')
    redis.call('PEXPIRE', holder, ttl_ms + GRACE_MS) -- refused: so is this, and all
  end
  recall(string.sub(hold, 1, SESSION_LENGTH) == session and 'k' or '[kRF]')
end
