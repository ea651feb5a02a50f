-- include shards/index
-- shards/restore
-- What a member knows of a group of which the server has lost all, or the newest writes: known has
-- when a caller gave the group its set (16; zeros for never), when the group was made (16), the
-- count (5) and the request of all members. The newest counts: a group that got a set since it was
-- made anew takes none.
--
-- uses     agreed_set, count_of, digits, known, state
-- defines  restore
local function restore()
  local set_at, made = string.sub(known, 1, STAMP_LENGTH), string.sub(known, STAMP_LENGTH + 1, 2 * STAMP_LENGTH)
  -- A member that was away says its names while some are missing, also if others have said theirs.
  local is_missing = state.names == 1 and state.known > state.count
  local is_same = made == digits(state.made) and set_at <= digits(state.set_at) and not is_missing
  if known == '' or is_same or set_at < digits(state.set_at) then
    return 0
  end
  local count = tonumber(string.sub(known, 2 * STAMP_LENGTH + 1, KNOWN_LENGTH))
  agreed_set, state.set_at = string.sub(known, KNOWN_LENGTH + 1), tonumber(set_at)
  if state.names == 1 then
    state.known = math.max(state.known, count)
  elseif state.next == 0 and count_of('v') == 0 then
    state.count = count
  else
    state.resize = count ~= state.count and count or 0
  end
  return 1
end
