-- redisson/permit-list v1
-- Returns the permits that are held, as Redisson's RPermitExpirableSemaphore has them, in the order
-- in which they end.
--
-- KEYS[1]  timeouts  sorted set: see redisson/permit-acquire v1
-- ARGV[1]  _kind  not used
-- ARGV[2]  from  how many are left out at the beginning
-- ARGV[3]  count  how many are returned at most
-- returns  {floor, phase, name, till, ...}  floor and phase are ''; each permit, 16 bytes, with the
--          stamp at which it ends, zeros for never
--          {-2, other}  the key is no semaphore's ('?')
-- effects  none
-- cost     O(log permits + from + count): TIME, ZRANGE
local timeouts = KEYS[1]
local _kind, from, count = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now

local later = '(' .. string.sub(now, 1, MS_DIGITS)
local page = redis.pcall('ZRANGE', timeouts, later, '+inf', 'BYSCORE', 'LIMIT', from, count, 'WITHSCORES')
if page['err'] then
  if string.sub(page['err'], 1, 9) ~= 'WRONGTYPE' then
    redis.call('ZRANGE', timeouts, 0, 0) -- refused: so is this
  end
  local other = '?'
  return {-2, other}
end
local listed = {}
listed[1], listed[2] = '', ''
for n = 1, #page, 2 do
  local till = string.format('%016.0f', page[n + 1] * US_PER_MS)
  if #till > STAMP_LENGTH then
    till = string.rep('0', STAMP_LENGTH)
  end
  listed[#listed + 1], listed[#listed + 2] = page[n], till
end
return listed
