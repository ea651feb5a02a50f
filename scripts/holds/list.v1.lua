-- holds/list v1
-- Returns the holds of a key that has several, in the order in which they end.
--
-- KEYS[1]  holder  sorted set: hold -> when it ends
-- ARGV[1]  kind  what a key of this kind has as a member: sb1w or sb1s
-- ARGV[2]  from  how many are left out at the beginning
-- ARGV[3]  count  how many are returned at most
-- returns  {floor, phase, hold, till, ...}  the floor of the tokens and the phase, '' without
--          them, and each hold with the stamp at which it ends
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
-- effects  none
-- cost     O(log n + from + count): TIME, ZMSCORE, ZRANGE
local holder = KEYS[1]
local kind, from, count = ARGV[1], ARGV[2], ARGV[3]
local own, may_create, heartbeats = '', false, holder

-- include queue/now
-- include holds/state

if other then
  return {-2, other}
end
local listed = {}
listed[1], listed[2] = floor, scores[2] or ''
-- No set has no holds: there is nothing, or a lock that was released.
local later = '(' .. now
local page = scores[1] and redis.call('ZRANGE', holder, later, '+inf', 'BYSCORE', 'LIMIT', from, count, 'WITHSCORES') or {}
for n = 1, #page, 2 do
  listed[#listed + 1], listed[#listed + 2] = page[n], string.format('%016.0f', page[n + 1])
end
return listed
