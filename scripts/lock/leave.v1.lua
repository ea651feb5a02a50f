-- lock/leave v1
-- Ends an attempt: its hold, which goes to the next in the queue, and its ticket. Any number of
-- times.
--
-- KEYS[1]  holder  string: 'sb1l', stamp (16), ticket (42), mark (1), label; see README.md
-- KEYS[2]  queue  sorted set: ticket -> the server's microseconds at its arrival; missing, as
--          heartbeats is, while a slot moves
-- KEYS[3]  heartbeats  hash: session -> life (16), number (20), listening (1), label; 'from' ->
--          when (16), and the last ticket that was passed over then
-- ARGV[1]  ticket  id (41) and mode (1)
-- ARGV[2]  session  that sends this, 22 characters
-- ARGV[3]  verb  PUBLISH or SPUBLISH
-- ARGV[4]  channel  of grants, without the session that it ends with
-- ARGV[5]  keep_ms  how long the floor of a free lock is kept
-- ARGV[6]  used  stamp of the last token that was used; '' if it is not known: the last of the
--          block then
-- ARGV[7]  certain  1 if the attempt has no ticket for certain, else 0
-- returns  {0, now}  the attempt has nothing here
--          1  an integer and no array: it held, and certain is 1; no queue can exist
--          {1, now, grants, more}  it held; grants is '', or if an attempt of the session holds now
--            that attempt (19), stamp (16) and number (20); more is 1 if a poll is due at once
--          {2, now}  it had a ticket
--          {3, now}  only the holder key was sent: it held, and may have a ticket
--          {-3, now}  only the holder key was sent: it did not hold, and may have a ticket
-- effects  writes the KEYS; publishes attempt, stamp and number to the channel of the session that
--          is granted the lock, unless the reply says it
-- cost     O(log n) in the tickets: GET, SET if it is certain and no queue can exist; TIME, GET,
--          ZPOPMIN, HGET, SET and the message if one can; ZREM too if it is not certain; the dead
--          at the head cost more
local holder, queue, heartbeats = KEYS[1], KEYS[2], KEYS[3]
local ticket, session, verb, channel, keep_ms, used, certain = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7]

-- include lock/holder

local is_holder, last = hold == ticket, used
if is_holder then
  if #last ~= STAMP_LENGTH or string.find(last, '%D') then
    last = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1))
  elseif last < floor then
    last = floor
  end
  if certain == '1' and not is_marked then
    if redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)['err'] then
      -- DEL takes no memory, and makes the server accept what follows.
      redis.call('DEL', holder)
      redis.pcall('SET', holder, 'sb1-' .. last, 'PX', keep_ms)
    end
    return 1
  end
end

-- include queue/now

local had_ticket = queue and (certain ~= '1' or not is_holder) and redis.call('ZREM', queue, ticket) == 1
if is_holder and (not queue or not is_marked) then
  -- include lock/free
  set_free(last, is_marked)
  if queue or certain == '1' then
    return {1, now, '', 0}
  end
  return {3, now}
elseif not queue and certain == '1' then
  return {0, now}
elseif not queue then
  return {-3, now}
elseif not is_holder then
  -- include lock/time-left
  if not is_marked or left_us > 0 then
    if had_ticket then
      return {2, now}
    end
    return {0, now}
  end
  if hold ~= '' then
    floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1)) -- it ended by itself: its whole block may be in use
  end
  last, session = floor, '' -- the reply has no room for a grant: every session gets a message
end

-- include queue/alive
-- include queue/listeners
-- include lock/grant
-- include lock/recent

-- Mostly the first in the queue is alive, and no search is needed. The functions of the search are
-- included below, since each run of the script makes them anew.
local head, grants = is_holder and redis.call('ZPOPMIN', queue) or {}, ''
local chosen, life = head[1] or '', false
if #chosen == TICKET_LENGTH then -- another is of another kind of lock, and is dropped
  local refused = false
  life = redis.pcall('HGET', heartbeats, string.sub(chosen, 1, SESSION_LENGTH))
  local owner = string.sub(chosen, 1, SESSION_LENGTH)
  if type(life) == 'string' and is_alive(life, now) and is_recent(chosen, owner, life) and is_listening(owner, life) then
    local done, stamp = pcall(grant, chosen, life, last)
    if done and string.sub(chosen, 1, SESSION_LENGTH) == session then
      grants = string.sub(chosen, SESSION_LENGTH + 1, ID_LENGTH) .. stamp .. string.sub(life, LIFE_END + 1, NUMBER_END)
    end
    if done then
      return {1, now, grants, 0}
    end
    refused = true
  end
  redis.call('ZADD', queue, head[2], chosen) -- it keeps its position
  if type(redis.pcall('PEXPIRE', queue, QUEUE_TTL_MS)) == 'table' then
    redis.call('ZREM', queue, chosen) -- a sender without the right to that leaves no key without an end
  end
  if refused then
    redis.call('DEL', holder)
    return {1, now, '', 1}
  elseif type(life) == 'table' then
    redis.call('HGET', heartbeats, string.sub(chosen, 1, SESSION_LENGTH)) -- refused: so is this, and all
  end
end

-- include lock/free
if is_holder and chosen == '' then
  set_free(last, false)
  return {1, now, '', 0}
end

-- include lock/handoff

local stamp, paid
chosen, stamp, paid = hand_off(last)
if is_holder then
  if string.sub(chosen, 1, SESSION_LENGTH) == session then
    grants = string.sub(chosen, SESSION_LENGTH + 1, ID_LENGTH) .. stamp .. paid
  end
  return {1, now, grants, more}
elseif had_ticket then
  return {2, now}
end
return {0, now}
