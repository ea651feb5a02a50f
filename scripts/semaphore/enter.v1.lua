-- semaphore/enter v1
-- Takes permits if so many are free and no session that is alive waits. Otherwise the caller gets a
-- ticket at the end of the queue, unless it only tries. Sent again for the same hold it keeps
-- ticket and permits; the token of permits that it has is a later one then.
--
-- KEYS[1]  holder  sorted set: ticket and label -> when it ends; 'sb1s' -> the floor, below 0;
--          'used', 'capacity'; see README.md
-- KEYS[2]  queue  sorted set: ticket -> arrival, the server's microseconds at its arrival
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  ticket  id (41), and how many permits it wants, 10 digits
-- ARGV[2]  life_us  of the hold, if it is given at once
-- ARGV[3]  not_after  stamp: later than that nothing is done
-- ARGV[4]  queues  1 takes a ticket, 0 only tries
-- ARGV[5]  heartbeat_us  what a heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[6]  number  the heartbeat's: 12 digits and 8 random characters; '' if none is needed
-- ARGV[7]  label  what the caller is called, 0 to 64 bytes
-- ARGV[8]  verb  PUBLISH or SPUBLISH
-- ARGV[9]  channel  of grants, without the session that it ends with
-- ARGV[10]  keep_ms  how long the key outlives its last use
-- ARGV[11]  permits  how many there are if the key does not say
-- ARGV[12]  exact  1 refuses a key that says another number, else 0
-- ARGV[13]  again  1 if an enter of this hold was sent before, else 0
-- returns  {1, stamp, now}  it has the permits, and this is its token's stamp
--          {0, left_us, more, now}  it has not: the first of the holds ends in left_us; more is 1
--            if a poll is due at once
--          {-1, now}  later than not_after
--          {-2, other}  the name is in use by another kind of lock, or is no key of ours ('?')
--          {-4, capacity}  there are not as many permits at all
--          {-5, capacity}  exact, and there is another number of permits
-- effects  writes the KEYS; publishes attempt, stamp and number of what it grants to the channels
--          of their sessions
-- cost     O(log n) in the tickets and holds: TIME, ZMSCORE, ZADD, PEXPIRE; ZRANGE if 1,000 permits
--          are held; EXISTS if the key is missing; more if another session waits
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local ticket, life_us, not_after, queues, heartbeat_us, number, label, verb, channel, keep_ms, permits, exact, again = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12], ARGV[13]
assert(string.find(life_us .. ' ' .. heartbeat_us .. ' ' .. keep_ms .. ' ' .. permits, '^[1-9]%d* [1-9]%d* %d+ %d+$') and life_us + heartbeat_us + keep_ms + permits < MAX_NUMBER
  and #ticket == WEIGHT_END and not string.find(ticket, '%D', ID_LENGTH + 1) and #number % NUMBER_LENGTH == 0 and #label <= MAX_LABEL, 'bad argument')
local kind, after_ms, session, caller, requester = 'sb1s', keep_ms, string.sub(ticket, 1, SESSION_LENGTH), ticket, ''
local own, may_create = ticket .. label, false

-- include queue/heartbeat
-- include queue/listening
-- include queue/search
-- include queue/join

if now > not_after then
  return {-1, now}
end

-- include holds/state
-- An enter that is sent again may have a ticket although the mark was lost with the key.
local no_tickets = scores[6] ~= '1' and not is_lost and again ~= '1'

-- include holds/lengthen
-- include holds/ended
-- include holds/bound
-- include semaphore/handoff

if other then
  return {-2, other}
end
capacity = capacity or tonumber(permits)

-- A hold keeps its permits, whatever the capacity has become since.
local full, has = string.format('%016.0f', tonumber(now) + life_us), scores[7]
if has then
  write_hold(own, tonumber(has) > tonumber(full) and string.format('%016.0f', has) or full)
  return {1, floor, now}
end
if exact == '1' and capacity ~= tonumber(permits) then
  return {-5, capacity}
end
local weight = weight_of(ticket)
if weight > capacity then
  return {-4, capacity}
end

if waiting == 0 and used + weight <= capacity then
  if used >= ENDED_PAGE then
    deduct(remove_ended()) -- when they may be many, or they pile up to the capacity
  end
  write_hold(own, full, used + weight, 'used', capacity, 'capacity', 0, 'queue')
  return {1, floor, now}
end

if no_tickets and queues == '1' then
  waiting = redis.call('ZCARD', queue) -- before the first write: a foreign key makes the call fail without an effect
end
local before, due = redis.call('HMGET', heartbeats, session, 'from', 'from2'), 0
bound_holds()
deduct(remove_ended())
if queues == '1' then
  mark(used, 'used', capacity, 'capacity')
  join(queue, {queue}, ticket)
  waiting = waiting + 1
  if number ~= '' then
    heartbeat(before, listening())
  elseif not is_alive(before[1], now) then
    due = 1 -- it thought that its session was alive
  end
end
hand_off()
if granted[ticket] then
  lengthen(own, full)
  publish()
  return {1, granted[ticket], now}
end
publish()
-- A try takes permits before dead waiters, and before no others.
if queues == '0' and more == 0 and used + weight <= capacity and (waiting == 0 or not search(queue, 'from', is_listening)()) then
  write_hold(own, full, used + weight, 'used', capacity, 'capacity', mark_score(), 'queue')
  return {1, floor, now}
end
if grants > 0 then
  find_first()
end
return {0, left_us, math.max(is_unfinished(), due), now}
