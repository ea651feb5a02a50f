-- once/read v1
-- Returns the outcome that is stored for a key.
--
-- KEYS[1]  outcome  string: 'sb1o', stamp (16), the value; see README.md
-- returns  {1, stamp, value}  it is stored; stamp is that of the run's hold
--          {0}   there is no outcome
--          {-2}  the key is no outcome's
-- effects  writes and publishes nothing
-- cost     O(1): GET; the reply has the value
local outcome = KEYS[1]

-- include once/outcome
if is_foreign then
  return {-2}
end
if not text then
  return {0}
end
return {1, string.sub(text, STAMP_START, STAMP_END), string.sub(text, STAMP_END + 1)}
