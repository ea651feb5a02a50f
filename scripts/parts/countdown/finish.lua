-- include countdown/round
-- countdown/finish
-- Ends the round: its ids go, how it ended stays, and waiters are notified. PEXPIRE comes first
-- since it takes no memory: neither it nor what follows is refused if memory is full. UNLINK leaves
-- the work of freeing the ids to another thread. It may be denied, and the ids then stay until the
-- next start; what comes after it was allowed a moment before.
--
-- uses     channel, latch, ms, nonce, past, stamp, value, verb
-- defines  finish
local function finish(ending)
  local ended = 'sb1' .. stamp .. ending .. nonce .. string.sub(value, NONCE_END + 1)
  redis.call('PEXPIRE', latch, ms)
  redis.call('HSET', latch, 'round', ended)
  if redis.pcall('UNLINK', latch) == 1 then
    redis.call('HSET', latch, 'round', ended, 'past', past)
    redis.call('PEXPIRE', latch, ms)
  end
  redis.pcall(verb, channel, stamp .. ending .. nonce)
end
