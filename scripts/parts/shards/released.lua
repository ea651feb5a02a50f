-- shards/released
-- The shards of a release, as its argument lists them.
--
-- uses     shards
-- defines  from, released
local released, from = {}, 1
while from <= #shards do
  local token, ending = string.sub(shards, from, from + STAMP_LENGTH - 1), string.sub(shards, from + ENDING_AT - 1, from + ENDING_AT - 1)
  local pause = string.sub(shards, from + PAUSE_START - 1, from + PAUSE_END - 1)
  local length = string.sub(shards, from + PAUSE_END, from + NAME_LENGTH_END - 1)
  assert(#released < SHARDS_A_CALL and string.find(token .. ' ' .. ending .. ' ' .. pause .. ' ' .. length, '^%d+ [dreux] %d+ %d%d$'), 'bad argument')
  local behind = from + NAME_LENGTH_END + length
  released[#released + 1] = {token = token, ending = ending, pause_us = tonumber(pause), name = string.sub(shards, from + NAME_LENGTH_END, behind - 1)}
  from = behind
end
assert(from == #shards + 1, 'bad argument')
