-- holder/renew v1
-- Lengthens the life of many holds, or asks whether they are there still. It never creates a
-- key, and touches those only that still belong to the hold that is named beside them.
--
-- KEYS[n]  holder   string: 'sb1', kind (1), stamp (16), hold (41), ...; see README.md
-- ARGV[n]  terms    a pair by key, at 2n-1 and 2n: hold (41 characters, or 57 with the stamp before it), ttl_ms (positive integer; 0 asks only)
-- returns  {alive, ...}  by key: 1 it lives on, 0 the hold has it no more, -1 the server refused to say
-- effects  lengthens the life of the KEYS, and with it 'until' of those that a line stands behind (kind f); publishes nothing
-- cost     O(keys): GET and PEXPIRE each; TIME and SET too where a line stands behind it
local alive = {}
for n, holder in ipairs(KEYS) do
  local hold, ttl_ms = ARGV[2 * n - 1], ARGV[2 * n]
  -- pcall: a key of the wrong type is that hold's loss, not the whole batch's.
  local value = redis.pcall('GET', holder)
  alive[n] = 0
  if type(value) == 'string' then
    if string.sub(value, 62 - #hold, 61) == hold then
      if string.sub(value, 1, 4) == 'sb1f' then
        local time = redis.call('TIME')
        local now = tonumber(time[1] .. string.sub('00000' .. time[2], -6))
        local till = tonumber(string.sub(value, 62, 77)) or 0
        if till > now then
          alive[n] = 1
          if ttl_ms ~= '0' then
            till = math.max(till, now + ttl_ms * 1000)
            local longer = string.sub(value, 1, 61) .. string.format('%016.0f', till) .. string.sub(value, 78)
            local ms = string.format('%.0f', (till - now) / 1000 + 15000)
            -- Not in one: PEXPIRE takes no memory, and what comes after it is not refused where that is full.
            local kept = redis.pcall('PEXPIRE', holder, ms)
            if kept == 1 then
              kept = redis.pcall('SET', holder, longer, 'KEEPTTL')
            end
            alive[n] = kept['err'] and -1 or 1
          end
        end
      else
        alive[n] = 1
        if ttl_ms ~= '0' then
          alive[n] = redis.call('PEXPIRE', holder, ttl_ms)
        end
      end
    end
  elseif value and string.sub(value['err'], 1, 9) ~= 'WRONGTYPE' then
    alive[n] = -1
  end
end
return alive
