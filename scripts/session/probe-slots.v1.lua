-- session/probe-slots v1
-- Deletes the keys of a probe, and says how many there were. The caller has just written them one
-- by one. If one script may have keys of several slots, all of them are here.
--
-- KEYS[n]  probe  string of a probe; those of one probe are in different slots
-- returns  {count}  of the KEYS that there were
-- effects  deletes KEYS
-- cost     O(keys): DEL each
local count = 0
for n, probe in ipairs(KEYS) do
  count = count + redis.call('DEL', probe)
end
return {count}
