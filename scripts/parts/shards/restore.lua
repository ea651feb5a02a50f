-- include shards/index
-- shards/restore
-- What a member knows of a group that the server has lost: known has when a caller told the group
-- its set (16), when the group was made (16), the count (5) and the wish that all members had. The
-- newest counts. A group that was told of a set since it was made anew takes none.
--
-- uses     count_of, digits, known, state, wish
-- defines  restore
local function restore()
  local told, made = string.sub(known, 1, STAMP_LENGTH), string.sub(known, STAMP_LENGTH + 1, 2 * STAMP_LENGTH)
  if known == '' or made == digits(state.made) or told < digits(state.told) then
    return 0
  end
  local count = tonumber(string.sub(known, 2 * STAMP_LENGTH + 1, KNOWN_LENGTH))
  wish, state.told = string.sub(known, KNOWN_LENGTH + 1), tonumber(told)
  if state.names == 1 then
    state.known = math.max(state.known, count)
  elseif state.next == 0 and count_of('v') == 0 then
    state.count = count
  else
    state.resize = count ~= state.count and count or 0
  end
  return 1
end
