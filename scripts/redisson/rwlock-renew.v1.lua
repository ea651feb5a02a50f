-- redisson/rwlock-renew v1
-- Lengthens the life of many holds, or asks whether they are there still, as Redisson's
-- RReadWriteLock has them. It touches those only that are named, and makes no hash live shorter for
-- it.
--
-- KEYS[n]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[n]  terms  a pair by key, at 2n-1 and 2n: hold (56), ttl_ms (positive integer; 0 asks only)
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -8 the server refused to
--          say, or ttl_ms is no number of 1 to 15 digits: nothing changed
-- effects  lengthens the life of the KEYS and of the keys of the holds; publishes nothing
-- cost     O(keys): HMGET, PTTL, PEXPIRE each, and PEXPIRE of the key of a hold that reads
local alive = {}

-- include redisson/timeout

for n, lock in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  local writes = hold .. ':write'
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local fields = redis.pcall('HMGET', lock, hold, writes)
  alive[n] = 0
  if not string.find(ttl_ms, '^%d+$') or #ttl_ms > MAX_DIGITS then
    alive[n] = -8 -- a life of -1 would delete the keys
  elseif fields['err'] then
    alive[n] = string.sub(fields['err'], 1, 9) == 'WRONGTYPE' and 0 or -8
  elseif fields[1] or fields[2] then
    alive[n] = 1
    if ttl_ms ~= '0' then
      if fields[1] then
        local timeout = timeout_key(lock, hold, 1)
        if redis.call('PEXPIRE', timeout, ttl_ms) == 0 then
          -- It ended, but no other hold was granted since, or the field would be gone.
          redis.call('SET', timeout, '1', 'PX', ttl_ms)
        end
      end
      local life = math.max(tonumber(ttl_ms), redis.call('PTTL', lock))
      redis.call('PEXPIRE', lock, string.format('%.0f', life))
    end
  end
end
return alive
