-- holds/renew v1
-- Lengthens the life of many holds in keys that have several, or asks whether they are there still.
-- It never creates a hold, and touches none that has ended.
--
-- KEYS[n]  holder  sorted set: hold -> when it ends
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold, ttl_ms
--            hold    the member
--            ttl_ms  positive integer; 0 asks only
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -8 the server refused to
--          say, or ttl_ms is no number of 1 to 15 digits: nothing changed
-- effects  lengthens the life of the holds and of the KEYS; publishes nothing
-- cost     O(keys log holds): TIME; ZMSCORE, ZADD and PEXPIRE each; ZADD twice for a life of
--          more than 30 seconds

-- include key/lengthen

local time = redis.call('TIME')
local now = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
local alive = {}
for n, holder in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local scores = redis.pcall('ZMSCORE', holder, hold, 'kept')
  alive[n] = 0
  if not string.find(ttl_ms, '^%d+$') or #ttl_ms > MAX_DIGITS then
    alive[n] = -8
  elseif scores['err'] then
    alive[n] = string.sub(scores['err'], 1, 9) == 'WRONGTYPE' and 0 or -8
  elseif scores[1] and tonumber(scores[1]) > now then
    alive[n] = 1
    if ttl_ms ~= '0' then
      -- The key first: it takes no memory, and what comes after it is not refused if memory is
      -- full. It outlives the hold, and by longer if a semaphore's capacity was set; see
      -- semaphore/resize v1.
      local ms, till = ttl_ms + math.max(GRACE_MS, tonumber(scores[2] or 0)), string.format('%.0f', now + ttl_ms * US_PER_MS)
      local lengthened = pcall(lengthen_key, holder, ms) and redis.pcall('ZADD', holder, 'XX', 'GT', till, hold)
      if type(lengthened) == 'number' and tonumber(ttl_ms) > NOTED_LIFE_MS then
        lengthened = redis.pcall('ZADD', holder, 'GT', string.format('%.0f', ttl_ms * US_PER_MS), 'longest')
      end
      alive[n] = type(lengthened) == 'number' and 1 or -8
    end
  end
end
return alive
