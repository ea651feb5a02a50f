-- session/rewrite v1
-- Writes the life of a key anew, without a change. WAIT on the same connection then counts the
-- replicas that have this write, and with it all earlier ones. Behind a script that had nothing to
-- write, such as a renewal of a hold that lasts long enough, WAIT would count other writes.
--
-- KEYS[1]  any  a key of ours, of any type
-- returns  {1}  written
--          {0}  there is no key: nothing is written
-- effects  KEYS[1] keeps its value, and ends when it would have ended; perhaps a millisecond later
--          before Redis 7.2, whose clock runs on in a script
-- cost     O(1): PTTL and PEXPIRE; PERSIST twice if the key has no end
local any = KEYS[1]

local left_ms = redis.call('PTTL', any)
if left_ms == -2 then
  return {0}
end
if left_ms == -1 then
  redis.call('PERSIST', any) -- if this is denied, the key must not get an end
  redis.call('PEXPIRE', any, GRACE_MS)
  redis.call('PERSIST', any)
else
  redis.call('PEXPIRE', any, math.max(left_ms, 1)) -- 0 would delete it
end
return {1}
