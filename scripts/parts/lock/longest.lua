-- lock/longest
-- The longest life that a hold was given, in milliseconds, and how it is noted: behind the label,
-- '\n' and digits. One of up to 30 seconds is not. A key that lives longer than that was given its
-- end before the server's clock was set back, or by another program.
--
-- uses     nothing
-- defines  longest_ms, note_life, raise
local function longest_ms(value)
  local noted = string.match(value, '\n(%d+)$')
  return tonumber(noted or NOTED_LIFE_MS)
end
local function note_life(key, ms, value)
  local life_ms = tonumber(ms)
  if life_ms > NOTED_LIFE_MS then
    value = value or redis.call('GET', key)
    if life_ms > longest_ms(value) then
      redis.call('SET', key, string.match(value, '^[^\n]*') .. '\n' .. string.format('%.0f', life_ms), 'KEEPTTL')
    end
  end
end
-- Lengthens a hold that a ticket was granted just now, for left_us, to ms.
local function raise(key, left_us, ms)
  if left_us < ms * US_PER_MS then
    redis.call('PEXPIRE', key, ms + GRACE_MS)
    note_life(key, ms)
  end
end
