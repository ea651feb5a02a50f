-- lock/waiters v1
-- Returns the tickets of the queue, a page at a time.
--
-- KEYS[1]  line   sorted set: ticket -> the server's microseconds at its arrival
-- KEYS[2]  lives  hash: session -> life (16), number (20), ear (1), label
-- ARGV[1]  after  the arrival before the page, or 0
-- ARGV[2]  count  of tickets in the page
-- returns  {waiter, ...}  by arrival, four each: ticket (42), its arrival (a stamp), 1 if the
--          session lives, else 0, and label
-- effects  none
-- cost     O(log n + count): TIME, ZRANGE, HGET each
local line, lives = KEYS[1], KEYS[2]
local after, count = ARGV[1], ARGV[2]

-- include line/now
-- include line/living

local waiters = {}
local from = '(' .. after
local page = redis.call('ZRANGE', line, from, '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
for i = 1, #page, 2 do
  if #page[i] == 42 then -- others are of another kind of lock
    local life = redis.call('HGET', lives, string.sub(page[i], 1, 22))
    local n = #waiters
    waiters[n + 1], waiters[n + 2] = page[i], string.format('%016.0f', page[i + 1])
    waiters[n + 3], waiters[n + 4] = living(life, now) and 1 or 0, life and string.sub(life, 38) or ''
  end
end
return waiters
