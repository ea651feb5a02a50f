-- redisson/ids
-- The permits of a hold, which says how many they are in 10 digits behind 12 bytes of its own:
-- these, and a number of four bytes for each.
--
-- uses     nothing
-- defines  ids_of
local function ids_of(hold)
  local base, ids = string.sub(hold, 1, PERMIT_BASE), {}
  for n = 1, tonumber(string.sub(hold, PERMIT_BASE + 1)) do
    ids[n] = base .. string.char(0, 0, math.floor(n / BYTE), n % BYTE)
  end
  return ids
end
