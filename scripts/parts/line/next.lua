-- Finds the first ticket whose session lives, and what is said of that session. Dead ones are passed
-- over; they lose their place only when they were dead for ten seconds, so that a session which was
-- cut off for a while comes back to it. 'from' remembers the last of those that were passed over, and
-- when: ever so many are passed over once, unless one of them comes back. more says that the search is
-- not done.
local more = 0
local function next_living()
  local head = redis.call('ZRANGE', line, 0, 0)[1]
  if not head then
    return nil
  end
  local life = redis.call('HGET', lives, string.sub(head, 1, 22))
  if living(life, now) then
    return head, life
  end

  local known = {} -- what is said of a session, or false
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
  local function remove(tickets)
    if #tickets > 0 then
      redis.call('ZREM', line, unpack(tickets))
    end
  end

  local gone = {}
  for _, ticket in ipairs(redis.call('ZRANGE', line, 0, 255)) do
    if not is_gone(life_of(ticket)) then
      break
    end
    gone[#gone + 1] = ticket
  end
  remove(gone)

  local from = redis.call('HGET', lives, 'from')
  local rank = from and string.sub(from, 1, 16) <= now and redis.call('ZRANK', line, string.sub(from, 17))
  rank = rank and rank + 1 or 0
  local passed, found
  for _ = 1, 8 do
    local page = redis.call('ZRANGE', line, rank, rank + 127)
    gone = {}
    for _, ticket in ipairs(page) do
      life = life_of(ticket)
      if living(life, now) then
        found = ticket
        break
      elseif is_gone(life) then
        gone[#gone + 1] = ticket
      else
        passed = ticket
      end
    end
    remove(gone)
    rank = rank + #page - #gone
    more = not found and #page == 128 and 1 or 0
    if more == 0 then
      break
    end
  end
  if passed then
    -- Not worth a refusal, where memory is full: it spares the next search, no more.
    redis.pcall('HSET', lives, 'from', now .. passed)
    redis.call('PEXPIRE', lives, 600000)
  end
  return found, life
end
