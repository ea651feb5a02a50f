-- election/read v1
-- Returns the value of the last term, and the hold that wrote it. It says nothing about who leads.
--
-- KEYS[1]  leader  string: 'sb1e', id (41), number (16), value; see README.md
-- returns  {1, id, text}  the value that this attempt wrote; both are '' if there is no value
--          {-2}  the key is not an election's
-- effects  none
-- cost     O(1): GET
local leader = KEYS[1]

-- include election/record
if is_foreign then
  return {-2}
end
return {1, writer, value}
