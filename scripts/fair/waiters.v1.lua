-- fair/waiters v1
-- Tells who stands in line, a page at a time.
--
-- KEYS[1]  line   sorted set: hold -> ticket
-- KEYS[2]  lives  hash: session -> life (16), number (20), label
-- ARGV[1]  after  the ticket before the page, or 0
-- ARGV[2]  count  of tickets in the page
-- returns  {waiter, ...}  by ticket, four each: session, ticket (the server's time at its arrival, a stamp), 1 where the session lives, else 0, and label
-- effects  none
-- cost     O(log n + count): TIME, ZRANGE, HGET each
local line, lives = KEYS[1], KEYS[2]
local after, count = ARGV[1], ARGV[2]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part line/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and says nothing any more.
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
-- end line/living

local waiters = {}
local from = '(' .. after
local page = redis.call('ZRANGE', line, from, '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
for i = 1, #page, 2 do
  local session = string.sub(page[i], 1, 22)
  local life = redis.call('HGET', lives, session)
  local n = #waiters
  waiters[n + 1], waiters[n + 2] = session, string.format('%016.0f', page[i + 1])
  waiters[n + 3], waiters[n + 4] = living(life, now) and 1 or 0, life and string.sub(life, 37) or ''
end
return waiters
