-- redisson/rwlock-list v1
-- Returns the holds of a lock, to read or to write, as Redisson's RReadWriteLock has it, in the
-- order in which they end.
--
-- KEYS[1]  lock  hash: see redisson/rwlock-acquire v1
-- ARGV[1]  _kind  not used: the fields say what the key is
-- ARGV[2]  from  how many are left out at the beginning
-- ARGV[3]  count  how many are returned at most
-- returns  {floor, phase, name, till, ...}  '', which is no floor; 1 if a writer has it; and of
--          each hold its field, without :write, and the stamp at which it ends. Readers whose holds
--          have ended are left out
--          {-2, other}  the name is in use by another kind of lock, or is no key of Redisson's
--            ('?')
--          an error  the server's refusal
-- effects  none
-- cost     O(holds): HGETALL, and PEXPIRETIME each
local lock = KEYS[1]
local _kind, from, count = ARGV[1], ARGV[2], ARGV[3]

-- include key/ends
-- include redisson/timeout

local fields = redis.pcall('HGETALL', lock)
if fields['err'] then
  if string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
    return fields
  end
  return {-2, '?'}
end
local mode, holds = nil, {}
for i = 1, #fields, 2 do
  if fields[i] == 'mode' then
    mode = fields[i + 1]
  end
end
if #fields > 0 and not mode then
  return {-2, 'r'}
end
for i = 1, #fields, 2 do
  local writer, till = string.match(fields[i], '^(.*):write$'), 0
  if mode == 'write' and writer then
    till = key_ends(lock)
  elseif mode == 'read' then
    for n = tonumber(fields[i + 1]) or 0, 1, -1 do
      local timeout = timeout_key(lock, fields[i], n)
      till = math.max(till, key_ends(timeout))
    end
  end
  if till > 0 then
    holds[#holds + 1] = string.format('%016.0f', till * US_PER_MS) .. (writer or fields[i])
  end
end
table.sort(holds)
local listed = {}
listed[1], listed[2] = '', mode == 'write' and '1' or ''
for i = from + 1, math.min(#holds, from + count) do
  listed[#listed + 1], listed[#listed + 2] = string.sub(holds[i], STAMP_LENGTH + 1), string.sub(holds[i], 1, STAMP_LENGTH)
end
return listed
