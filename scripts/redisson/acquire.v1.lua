-- redisson/acquire v1
-- Takes locks that are free, as Redisson's RLock has them: each for a hold of its own and whatever becomes of the others.
-- Sent again for the same hold it answers a later stamp: nobody had the one before, which was lost with its reply.
--
-- KEYS[n]  lock       hash: a field for the hold, of the value 1; see README.md
-- ARGV[n]  request    four by key, at 4n-3 to 4n: claim, ttl_ms, not_after, _mark
--            claim      hold (56), fresh for every attempt, and what the layout has no place for
--            ttl_ms     positive integer
--            not_after  stamp; executed later, nothing is written
--            _mark      not used: every release is told
-- returns  reply, {reply, ...}  bare for one key, a list for more; each is
--            stamp            taken, at the server's time stamp; 256 us of tokens from there on are the hold's
--            {0, left_ms, now}  somebody else holds it, left_ms until its key ends
--            {-1, now}        later than not_after
--            {-2, kind}       the name is in use by another kind of lock, or is no key of Redisson's ('?')
--            an error         the server's refusal of that key
-- effects  writes KEYS; publishes nothing
-- cost     O(keys): TIME once; HLEN, HSET, PEXPIRE each; held: HLEN, HGET twice, PTTL
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
for n = 1, #KEYS do
  local lock, claim, ttl_ms = KEYS[n], ARGV[4 * n - 3], ARGV[4 * n - 2]
  local not_after, _mark = ARGV[4 * n - 1], ARGV[4 * n]
  local hold = string.sub(claim, 1, 56)
  local fields = redis.pcall('HLEN', lock)
  local reply = now

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
    local refusal = seize(lock, hold, ttl_ms)
    if refusal then
      reply = refusal
    end
  end
  if #KEYS == 1 then
    return reply
  end
  replies[n] = reply
end
return replies
