-- include holds/grant
-- include key/lengthen
-- include queue/listeners
-- include queue/search
-- semaphore/handoff
-- Grants from the head of the queue as long as it fits, at most 128 a call. A ticket for more than
-- there is at all is removed when it is first, or at a poll of its session, which returns that.
-- used is the sum of all holds in the key, those that have ended included.
--
-- uses     after_ms, first, floor, grant, grants, holder, is_listening, is_marked, keep_ms, kind, lengthen_key, made, mark, more, no_tickets, now, queue, scores, search
-- defines  blocked, capacity, count_holds, counted, deduct, grant_queue, hand_off, keep_key, mark_score, reserve, used, waiting, weight_of
local used, capacity = (scores[3] or 0) + 0, scores[4] and scores[4] + 0 -- not by tonumber: see holds/bound
-- The key outlives its last use by keep_ms, or if semaphore/resize set the capacity by what that
-- wrote, if that is more.
after_ms = math.max(tonumber(keep_ms), tonumber(scores[5] or 0))
-- How many tickets there are, or more: 0 if no_tickets is set. Read before the first
-- write, as the type of heartbeats is by a hand-off: a key that is foreign makes the call fail
-- before it has an effect.
local waiting = no_tickets and 0 or redis.call('ZCARD', queue)
if waiting > 0 then
  after_ms = math.max(after_ms, GRACE_MS) -- longer than there is between two polls of any waiter
end
local function weight_of(hold)
  return tonumber(string.sub(hold, ID_LENGTH + 1, WEIGHT_END)) or 0
end
-- Adds up the holds, unless that are as many as limit: another program may have removed one, or the
-- sum.
local function count_holds(limit)
  local holds, sum = redis.call('ZRANGE', holder, FIRST_STAMP, '+inf', 'BYSCORE', 'LIMIT', 0, limit), 0
  for _, hold in ipairs(holds) do
    sum = sum + weight_of(hold)
  end
  used = #holds == limit and used or sum
end
if made and not scores[3] then
  count_holds(-1)
end
local counted = scores[3] and scores[3] + 0 -- the sum as the key has it
-- Deducts holds that were removed, at once: whatever is refused behind this, no permits are lost.
local function deduct(holds)
  for _, hold in ipairs(holds) do
    used = used - weight_of(hold)
  end
  if #holds > 0 then
    redis.call('ZADD', holder, used, 'used')
    counted = used
  end
end
-- Permits that were waited for may be handed over inside the process that gets them, and each hold
-- there needs a token. So the stamp of such a hold is that of a block of them: as many as the
-- greatest power of four that it is a multiple of, up to 1024. Blocks get shorter the further
-- they run ahead of the clock; from 80 ms on each stamp stands for itself. Raises floor, so that
-- the next stamp is the first of a block, and returns the last.
local function reserve()
  local first = math.max(tonumber(now), (tonumber(floor) or 0) + 1)
  local ahead = first - tonumber(now)
  local size = ahead < MAX_AHEAD_US and MAX_BLOCK / 4 ^ math.floor(ahead / AHEAD_STEP_US) or 1
  local begins = math.ceil(first / size) * size
  if size < MAX_BLOCK and begins % (4 * size) == 0 then
    begins = begins + size
  end
  floor = string.format('%016.0f', begins - 1)
  return string.format('%016.0f', begins + size - 1)
end
local function mark_score()
  return is_marked and waiting > 0 and 1 or 0
end
local blocked -- the ticket that comes next, and wants more than is free
local function grant_queue()
  local next_ticket = search(queue, 'from', is_listening)
  while used < capacity do
    local ticket, life = next_ticket()
    local weight = ticket and weight_of(ticket)
    if not ticket or weight <= capacity and used + weight > capacity then
      blocked = ticket
      return
    elseif weight > capacity then
      redis.call('ZREM', queue, ticket)
    elseif grants == MAX_GRANTS then
      more = 1
      return
    else
      used = used + weight
      local block = reserve()
      grant(queue, ticket, life, used, 'used', '-' .. block, kind)
      counted, floor = used, block
    end
  end
end
-- After a use that granted nothing. Of a semaphore whose permits are all free nothing but that use
-- keeps the key. By pcall: what was released is released.
local function keep_key()
  if grants > 0 then
    return
  elseif used > 0 then
    pcall(lengthen_key, holder, after_ms)
  else
    redis.pcall('PEXPIRE', holder, after_ms)
  end
end
local function hand_off()
  used = first and used or 0 -- whatever the sum says: there is no hold
  if waiting > 0 then
    mark(used, 'used', capacity, 'capacity')
    grant_queue()
  end
  if made and (used ~= counted or not scores[4] or is_marked and waiting == 0) then
    redis.call('ZADD', holder, used, 'used', capacity, 'capacity', mark_score(), 'queue')
  end
end
