-- election/requested v1
-- Whether there is a request that the holder of a term hands over.
--
-- KEYS[1]  heartbeats  hash: see election/move v1
-- ARGV[1]  id  of the hold, 41 characters
-- returns  {requested}  1 if there is one, else 0
-- effects  none
-- cost     O(1): TIME, HGET
local heartbeats = KEYS[1]
local id = ARGV[1]

-- include queue/now
-- include queue/alive

-- A request lasts no longer than a life. One that seems to was made before the server's clock was
-- set back, and its caller may have given up long ago.
local request = redis.call('HGET', heartbeats, 'move')
return {is_alive(request, now) and string.sub(request, STAMP_LENGTH + 1) == id and 1 or 0}
