-- election/clear v1
-- Removes the value of a term that is over, and notifies the observers. It touches no other term's
-- value. Any number of times.
--
-- KEYS[1]  leader  string: 'sb1e', id (41), number (16), value; see README.md
-- ARGV[1]  id  of the hold, 41 characters
-- ARGV[2]  verb  PUBLISH or SPUBLISH
-- ARGV[3]  channel  on which observers listen
-- returns  {cleared}  1 if a value was removed, 0 if the hold has no value there
-- effects  deletes KEYS[1] if hold wrote it; publishes '' in any case
-- cost     O(1): GET, DEL, and the message
local leader = KEYS[1]
local id, verb, channel = ARGV[1], ARGV[2], ARGV[3]

-- include election/record
local cleared = 0
if not is_foreign and writer == id then
  cleared = redis.call('DEL', leader)
end
redis.pcall(verb, channel, '')
return {cleared}
