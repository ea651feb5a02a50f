-- semaphore/available v1
-- Returns how many permits there are, and how many of them are held. Those of holds that have ended
-- are free, also while the key still has them.
--
-- KEYS[1]  holder  sorted set: see semaphore/enter v1
-- returns  {1, capacity, used}  capacity is -1 if the key does not say
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  none
-- cost     O(log n), and the holds that have ended: TIME, ZMSCORE, ZRANGE; ZRANGE, ZRANK twice and
--          ZRANGE for each thousand of them
local holder = KEYS[1]
local kind, own, may_create, heartbeats = 'sb1s', '', false, holder

-- include queue/now
-- include holds/state

if other then
  return {-2, other}
end
-- By rank: a page that is found by its rank costs no more behind a hundred thousand others.
local used = (scores[3] or 0) + 0 -- not by tonumber: see holds/bound
local first = scores[1] and redis.call('ZRANGE', holder, FIRST_STAMP, now, 'BYSCORE', 'LIMIT', 0, 1)[1]
if first then
  local ended = redis.call('ZRANGE', holder, now, FIRST_STAMP, 'BYSCORE', 'REV', 'LIMIT', 0, 1)[1]
  local last = redis.call('ZRANK', holder, ended)
  for from = redis.call('ZRANK', holder, first), last, ENDED_PAGE do
    local till = from + (ENDED_PAGE - 1)
    for _, hold in ipairs(redis.call('ZRANGE', holder, from, math.min(till, last))) do
      used = used - (tonumber(string.sub(hold, ID_LENGTH + 1, WEIGHT_END)) or 0)
    end
  end
end
return {1, (scores[4] or -1) + 0, used}
