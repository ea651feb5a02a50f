-- redisson/fence v1
-- Takes locks that are free, as Redisson's RFencedLock has them: each for a hold of its own, with the next number of its counter for a token,
-- and whatever becomes of the others. Sent again for the same hold it answers a later token: nobody had the one before, which was
-- lost with its reply.
--
-- KEYS[n]  locks    a pair by request, at 2n-1 and 2n: lock, token
--            lock       hash: see redisson/acquire v1
--            token      string: the last token of the lock, decimal, without an end
-- ARGV[n]  request  four by request, at 4n-3 to 4n: claim, ttl_ms, not_after, _mark
--            claim      hold (56), fresh for every attempt, and what the layout has no place for
--            ttl_ms     positive integer
--            not_after  stamp; executed later, nothing is written
--            _mark      not used: every release is told
-- returns  reply, {reply, ...}  bare for one request, a list for more; each is
--            {2, token, now}  taken, with that token and no other
--            {0, left_ms, now}  somebody else holds it, left_ms until its key ends
--            {-1, now}        later than not_after
--            {-2, kind}       the name is in use by another kind of lock, or is no key of Redisson's ('?')
--            an error         the server's refusal of that key
-- effects  writes KEYS; publishes nothing
-- cost     O(requests): TIME once; HLEN, INCR, HSET, PEXPIRE each; held: HLEN, HGET twice, PTTL
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)

-- part redisson/seize
-- Gives a lock that is free, or that the hold has, to a hold. It answers what the server refused, or nothing.
local function seize(lock, hold, ttl_ms)
  local written = redis.pcall('HSET', lock, hold, '1')
  if type(written) == 'table' then
    return written
  end
  -- A key without an end would keep the others out for ever: rather none.
  local ends = redis.pcall('PEXPIRE', lock, ttl_ms)
  if type(ends) == 'table' then
    redis.pcall('DEL', lock)
    return ends
  end
end
-- end redisson/seize

local replies = {}
for n = 1, #KEYS / 2 do
  local lock, token = KEYS[2 * n - 1], KEYS[2 * n]
  local claim, ttl_ms = ARGV[4 * n - 3], ARGV[4 * n - 2]
  local not_after, _mark = ARGV[4 * n - 1], ARGV[4 * n]
  local hold = string.sub(claim, 1, 56)
  local fields = redis.pcall('HLEN', lock)
  local reply

  if now > not_after then
    reply = {-1, now}
  elseif type(fields) == 'table' then
    reply = fields
    if string.sub(fields['err'], 1, 9) == 'WRONGTYPE' then
      reply = {-2, '?'}
    end
  elseif fields > 0 and not redis.call('HGET', lock, hold) then
    reply = {0, redis.call('PTTL', lock), now}
    if redis.call('HGET', lock, 'mode') then
      reply = {-2, 'w'}
    end
  else
    -- First: a number that nobody has is no harm, and a hold without one would be.
    local counted = redis.pcall('INCR', token)
    local refusal = type(counted) == 'table' and counted or seize(lock, hold, ttl_ms)
    reply = refusal
    if not refusal then
      reply = {2, counted, now}
    end
  end
  if #KEYS == 2 then
    return reply
  end
  replies[n] = reply
end
return replies
