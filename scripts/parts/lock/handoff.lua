-- include queue/listeners
-- include queue/search
-- include lock/free
-- include lock/grant
-- include lock/holder
-- include lock/recent
-- lock/handoff
-- Returns the first of the foremost tickets whose session is alive, listening and recent, or else
-- the first whose session is alive and listening; and the field of that session. Tickets that are
-- passed over keep their position until their session was dead for ten seconds. Returns nothing if
-- there is no such ticket, or no choice.
--
-- uses     channel, grant, heartbeats, is_alive, is_gone, is_listening, is_marked, is_recent, more, now, queue, remove, search, set_free
-- defines  hand_off, preferred_ticket
local function preferred_ticket()
  local page = redis.call('ZRANGE', queue, 0, HEAD_PAGE - 1)
  if #page < 2 then
    return nil
  end
  local owners, channels, gone, first, second = {}, {}, {}, nil, nil
  for n, ticket in ipairs(page) do
    owners[n] = string.sub(ticket, 1, SESSION_LENGTH)
    channels[n] = channel .. owners[n]
  end
  local fields = redis.call('HMGET', heartbeats, unpack(owners))
  local counts = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for n, ticket in ipairs(page) do
    if #ticket ~= TICKET_LENGTH then
      break -- a search drops it
    elseif is_gone(fields[n]) then
      gone[#gone + 1] = ticket
    elseif is_alive(fields[n], now) and is_listening(owners[n], fields[n], counts[2 * n] or 1) then
      second = second or n
      if is_recent(ticket, owners[n], fields[n]) then
        first = n
        break
      end
    end
  end
  remove(queue, gone)
  first = first or second
  return page[first], fields[first]
end

-- Grants the lock, which is free, to the ticket that is preferred, or else to the first one whose
-- session is alive and listening. Without one the lock stays free, and only an empty queue ends the
-- mark. A ticket of another kind of lock, which used the name before, is dropped. Returns the
-- ticket, or '', its stamp, the number of the heartbeat that paid, and how long the hold lasts.
local function hand_off(floor)
  local ticket, life = preferred_ticket()
  local next_alive = not ticket and search(queue, 'from', is_listening)
  for _ = 1, ticket and 0 or FOREIGN_LIMIT do
    ticket, life = next_alive()
    if not ticket or #ticket == TICKET_LENGTH then
      break
    end
    redis.call('ZREM', queue, ticket)
  end
  if ticket and #ticket ~= TICKET_LENGTH then
    ticket, more = nil, 1
  end
  if not ticket then
    is_marked = more == 1 or redis.call('EXISTS', queue) == 1
    set_free(floor, is_marked)
    return '', nil, nil, 0
  end
  local stamp, left_us = grant(ticket, life, floor)
  redis.call('ZREM', queue, ticket)
  return ticket, stamp, string.sub(life, LIFE_END + 1, NUMBER_END), left_us
end
