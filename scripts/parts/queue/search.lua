-- include queue/alive
-- include queue/now
-- queue/search
-- Returns a function that finds the next ticket of a queue whose session is alive, and the field of
-- that session. Before the next call the caller removes the ticket that it got. Tickets of dead
-- sessions are passed over. They are removed when the session was dead for ten seconds, so that a
-- session which was cut off for a while keeps its position. The field memory of heartbeats has the
-- last ticket that was passed over, and when: each is passed over once, unless its session comes
-- back. more says that the search is not done. is_listening, if it is given, says whether a session
-- that is alive is listening: see queue/listeners. Tickets of a session that is not are passed over
-- too. It may listen again at any time, so the memory ends before the first of them. A search that
-- would not be done returns that ticket: it could not continue behind it.
--
-- uses     heartbeats, is_alive, now
-- defines  entries, is_gone, life_of, more, rank_after, remove, search
local more, entries = 0, {} -- the field of a session, or false
local function life_of(ticket)
  local owner = string.sub(ticket, 1, SESSION_LENGTH)
  if entries[owner] == nil then
    entries[owner] = redis.call('HGET', heartbeats, owner)
  end
  return entries[owner]
end
local function is_gone(entry)
  local alive_till = tonumber(string.sub(entry or '', 1, LIFE_END))
  return not alive_till or alive_till + GONE_AFTER_US <= tonumber(now)
end
local function remove(queue, tickets)
  if #tickets > 0 then
    redis.call('ZREM', queue, unpack(tickets))
  end
end
-- Where a search begins: behind those that were passed over before.
local function rank_after(queue, memory, head)
  local gone = {}
  for _, ticket in ipairs(is_gone(life_of(head)) and redis.call('ZRANGE', queue, 0, GONE_PAGE - 1) or {}) do
    if not is_gone(life_of(ticket)) then
      break
    end
    gone[#gone + 1] = ticket
  end
  remove(queue, gone)
  local from = redis.call('HGET', heartbeats, memory)
  local rank = from and string.sub(from, 1, LIFE_END) <= now and redis.call('ZRANK', queue, string.sub(from, STAMP_LENGTH + 1))
  return rank and rank + 1 or 0
end
local function search(queue, memory, is_listening)
  local rank, pages = nil, 0 -- of the page, and how many there were
  local page, at, stays = {}, 0, 0 -- how far the page is read, and how many of its tickets stay
  local gone, passed = {}, nil -- the tickets to remove, and the last that was passed over
  local unsubscribed -- the first ticket that was passed over though its session is alive
  local function is_found(ticket, life)
    return is_alive(life, now) and (not is_listening or is_listening(string.sub(ticket, 1, SESSION_LENGTH), life))
  end
  local function remember()
    remove(queue, gone)
    gone = {}
    if passed then
      -- Not worth a refusal, if memory is full: it spares the next search, no more.
      redis.pcall('HSET', heartbeats, memory, now .. passed)
      redis.call('PEXPIRE', heartbeats, QUEUE_TTL_MS)
      passed = nil
    end
  end
  return function()
    if not rank then
      local head = redis.call('ZRANGE', queue, 0, 0)[1]
      local life = head and life_of(head)
      if not head or is_found(head, life) then
        return head, life
      end
      rank = rank_after(queue, memory, head)
    end
    while true do
      while at < #page do
        at = at + 1
        local ticket = page[at]
        local life = life_of(ticket)
        if is_found(ticket, life) then
          remember()
          return ticket, life
        elseif is_gone(life) then
          gone[#gone + 1] = ticket
        else
          stays = stays + 1
          unsubscribed = unsubscribed or is_alive(life, now) and ticket
          passed = not unsubscribed and ticket or passed
        end
      end
      local last = pages > 0 and #page < SEARCH_PAGE
      if last or pages == SEARCH_PAGES then
        remember()
        local ticket = not last and unsubscribed
        if ticket then
          unsubscribed = nil
          return ticket, life_of(ticket)
        end
        more = last and more or 1
        return nil
      end
      remove(queue, gone)
      rank = rank + stays
      page, at, stays, gone, pages = redis.call('ZRANGE', queue, rank, rank + (SEARCH_PAGE - 1)), 0, 0, {}, pages + 1
    end
  end
end
