-- include queue/living
-- include queue/now
-- queue/search
-- Returns a function that finds the next ticket of a queue whose session lives, and what lives has
-- of that session. Before the next call the caller removes the ticket that it got. Dead ones are
-- passed over; they lose their place only when they were dead for ten seconds, so that a session
-- which was cut off for a while comes back to it. The field memory of lives remembers the last of
-- those that were passed over, and when: ever so many are passed over once, unless one of them
-- comes back. more says that the search is not done. is_heard, if it is given, says whether a
-- session that lives is heard: see queue/heard. Tickets of one that is not are passed over too. It
-- may be heard again at any time, so the memory ends before the first of them. A search that would
-- not be done returns that one: it could not continue behind it.
--
-- uses     lives
-- defines  more, known, life_of, is_gone, remove, rank_after, search
local more, known = 0, {} -- known: what is said of a session, or false
local function life_of(ticket)
  local owner = string.sub(ticket, 1, 22)
  if known[owner] == nil then
    known[owner] = redis.call('HGET', lives, owner)
  end
  return known[owner]
end
local function is_gone(said)
  return not said or tonumber(string.sub(said, 1, 16)) + 10000000 <= tonumber(now)
end
local function remove(line, tickets)
  if #tickets > 0 then
    redis.call('ZREM', line, unpack(tickets))
  end
end
-- Where a search begins: behind those that were passed over before.
local function rank_after(line, memory, head)
  local gone = {}
  for _, ticket in ipairs(is_gone(life_of(head)) and redis.call('ZRANGE', line, 0, 255) or {}) do
    if not is_gone(life_of(ticket)) then
      break
    end
    gone[#gone + 1] = ticket
  end
  remove(line, gone)
  local from = redis.call('HGET', lives, memory)
  local rank = from and string.sub(from, 1, 16) <= now and redis.call('ZRANK', line, string.sub(from, 17))
  return rank and rank + 1 or 0
end
local function search(line, memory, is_heard)
  local rank, pages = nil, 0 -- of the page, and how many there were
  local page, at, stays = {}, 0, 0 -- how far the page is read, and how many of its tickets stay
  local gone, passed = {}, nil -- the tickets to remove, and the last that was passed over
  local unheard -- the first that lives and was passed over
  local function is_found(ticket, life)
    return living(life, now) and (not is_heard or is_heard(string.sub(ticket, 1, 22), life))
  end
  local function remember()
    remove(line, gone)
    gone = {}
    if passed then
      -- Not worth a refusal, if memory is full: it spares the next search, no more.
      redis.pcall('HSET', lives, memory, now .. passed)
      redis.call('PEXPIRE', lives, 600000)
      passed = nil
    end
  end
  return function()
    if not rank then
      local head = redis.call('ZRANGE', line, 0, 0)[1]
      local life = head and life_of(head)
      if not head or is_found(head, life) then
        return head, life
      end
      rank = rank_after(line, memory, head)
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
          unheard = unheard or living(life, now) and ticket
          passed = not unheard and ticket or passed
        end
      end
      local last = pages > 0 and #page < 128
      if last or pages == 8 then
        remember()
        local ticket = not last and unheard
        if ticket then
          unheard = nil
          return ticket, life_of(ticket)
        end
        more = last and more or 1
        return nil
      end
      remove(line, gone)
      rank = rank + stays
      page, at, stays, gone, pages = redis.call('ZRANGE', line, rank, rank + 127), 0, 0, {}, pages + 1
    end
  end
end
