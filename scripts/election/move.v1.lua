-- election/move v1
-- Requests that the holder of a term hands over, and lets the candidate of a session be the next.
-- Nothing is taken away. If no candidate is alive, nothing is requested. Any number of times.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  queue  sorted set: ticket -> the server's microseconds at its arrival
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'move' -> until
--          when the request lasts (16), id (41)
-- ARGV[1]  id  of the hold that is to hand over, 41 characters
-- ARGV[2]  member  session that is to follow, 22 characters; or '' for the first in the queue
-- ARGV[3]  keep_us  how long the request lasts
-- ARGV[4]  not_after  stamp: later than that nothing is done
-- returns  {1, found}  found is 1 if the request was made, and 0 if no candidate of member, or of
--            another session than the holder's, is alive
--          {0}  this hold has the lock no more
--          {-1, now}  later than not_after
-- effects  writes KEYS[3]; moves the ticket that was found to the head of KEYS[2], if it is that of
--          member or behind one of the holder's session; sends a message to the session of the hold
-- cost     O(candidates): TIME, GET, PTTL, ZRANGE, HGET each, HSET, and the message
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local id, member, keep_us, not_after = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(#id == ID_LENGTH and string.find(keep_us, '^[1-9]%d*$') and tonumber(keep_us) < MAX_NUMBER, 'bad argument')

-- include queue/now
if now > not_after then
  return {-1, now}
end

-- include queue/alive
-- include lock/time-left
if other or string.sub(hold, 1, ID_LENGTH) ~= id or left_us == 0 then
  return {0}
end

local owner, found, moves = string.sub(id, 1, SESSION_LENGTH), nil, member ~= ''
local page = redis.call('ZRANGE', queue, 0, CANDIDATES_PAGE - 1)
for n, ticket in ipairs(page) do
  local session = string.sub(ticket, 1, SESSION_LENGTH)
  if #ticket == TICKET_LENGTH and session ~= owner and (member == '' or session == member)
    and is_alive(redis.call('HGET', heartbeats, session), now) then
    found = n
    break
  end
  moves = moves or session == owner -- the holder's session has further candidates
end
if not found then
  return {1, 0}
end
local till = string.format('%016.0f', tonumber(now) + keep_us)
redis.call('HSET', heartbeats, 'move', till .. id)
if moves and found > 1 then
  local head = redis.call('ZRANGE', queue, 0, 0, 'WITHSCORES')
  redis.call('ZADD', queue, 'XX', string.format('%.0f', head[2] - 1), page[found])
end
-- include lock/recall
recall('[fF]')
return {1, 1}
