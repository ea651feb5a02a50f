-- redisson/permit-renew v1
-- Lengthens the life of the permits of many holds, as Redisson's RPermitExpirableSemaphore has
-- them, or asks whether they are there still. It never creates a permit, and touches none that has
-- ended.
--
-- KEYS[n]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold (12 bytes, and 10 digits), ttl_ms (positive
--          integer; 0 asks only)
-- returns  {alive, ...}  by key: 1 all live on, 0 the hold has some of them no more, -8 the server
--          refused to say, or ttl_ms is no number of 1 to 15 digits: nothing changed
-- effects  lengthens the life of the permits; publishes nothing
-- cost     O(n log permits): TIME; ZMSCORE and ZADD each
local time = redis.call('TIME')
local now_ms = time[1] * US_PER_MS + math.floor(time[2] / US_PER_MS)

-- include redisson/ids

local alive = {}
for n, timeouts in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  local ids = ids_of(hold)
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local scores = redis.pcall('ZMSCORE', timeouts, unpack(ids))
  alive[n] = 1
  if not string.find(ttl_ms, '^%d+$') or #ttl_ms > MAX_DIGITS then
    alive[n] = -8
  elseif scores['err'] then
    alive[n] = string.sub(scores['err'], 1, 9) == 'WRONGTYPE' and 0 or -8
  else
    for i = 1, #ids do
      if not scores[i] or tonumber(scores[i]) <= now_ms then
        alive[n] = 0
      end
    end
  end
  if alive[n] == 1 and ttl_ms ~= '0' then
    local members, ends = {}, string.format('%.0f', now_ms + ttl_ms)
    for i, id in ipairs(ids) do
      members[2 * i - 1], members[2 * i] = ends, id
    end
    local kept = redis.pcall('ZADD', timeouts, 'XX', 'GT', unpack(members))
    alive[n] = type(kept) == 'number' and 1 or -8
  end
end
return alive
