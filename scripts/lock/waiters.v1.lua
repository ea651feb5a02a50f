-- lock/waiters v1
-- Returns the tickets of a queue of any kind, a page at a time, by arrival.
--
-- KEYS[1]  queue  sorted set: ticket -> the server's microseconds at its arrival
-- KEYS[2]  heartbeats  hash: session -> life (16), number (20), listening (1), label
-- ARGV[1]  after  the arrival before the page, or 0
-- ARGV[2]  count  of tickets in the page
-- ARGV[3]  size  how long tickets of the kind are; another one is returned as ''
-- returns  {waiter, ...}  four each: ticket, arrival (a stamp), 1 if its session is alive or 0,
--            label
-- effects  none
-- cost     O(log n + count): TIME, ZRANGE, HGET each
local queue, heartbeats = KEYS[1], KEYS[2]
local after, count, size = ARGV[1], ARGV[2], ARGV[3]

-- include queue/now
-- include queue/alive

local waiters = {}
local from = '(' .. after
local page = redis.call('ZRANGE', queue, from, '+inf', 'BYSCORE', 'LIMIT', 0, count, 'WITHSCORES')
for i = 1, #page, 2 do
  local ticket = #page[i] == tonumber(size) and page[i] or ''
  local life = redis.call('HGET', heartbeats, string.sub(ticket, 1, SESSION_LENGTH))
  local n = #waiters
  waiters[n + 1], waiters[n + 2] = ticket, string.format('%016.0f', page[i + 1])
  waiters[n + 3], waiters[n + 4] = is_alive(life, now) and 1 or 0, life and string.sub(life, LISTENING_AT + 1) or ''
end
return waiters
