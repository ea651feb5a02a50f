-- once/forget v1
-- Deletes an outcome. Any number of times: it deletes none that was stored since.
--
-- KEYS[1]  outcome  string: 'sb1o', stamp (16), the value; see README.md
-- ARGV[1]  stamp  of the outcome that is to be deleted
-- returns  {1}  deleted
--          {0}  there is no outcome, or it has another stamp
--          {-2}  the key is no outcome's
-- effects  deletes KEYS[1]; publishes nothing
-- cost     O(1): GET and DEL
local outcome = KEYS[1]
local stamp = ARGV[1]

-- include once/outcome
if is_foreign then
  return {-2}
end
if not text or string.sub(text, STAMP_START, STAMP_END) ~= stamp then
  return {0}
end
redis.call('DEL', outcome)
return {1}
