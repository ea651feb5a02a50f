-- include queue/heard
-- include queue/search
-- include lock/free
-- include lock/grant
-- include lock/holder
-- include lock/ready
-- lock/handoff
-- The first of the foremost tickets whose session lives, is heard and is lively, or else the first
-- that lives and is heard; and what lives says of it. Those that are passed over keep their places,
-- until they were dead for ten seconds. Returns nothing if there is no such ticket, or no choice.
--
-- uses     channel, line, lives
-- defines  prefer, hand_off
local function prefer()
  local page = redis.call('ZRANGE', line, 0, 63)
  if #page < 2 then
    return nil
  end
  local owners, channels, gone, first, second = {}, {}, {}, nil, nil
  for n, ticket in ipairs(page) do
    owners[n] = string.sub(ticket, 1, 22)
    channels[n] = channel .. owners[n]
  end
  local said = redis.call('HMGET', lives, unpack(owners))
  local heard = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
  for n, ticket in ipairs(page) do
    if #ticket ~= 42 then
      break -- a search drops it
    elseif is_gone(said[n]) then
      gone[#gone + 1] = ticket
    elseif living(said[n], now) and is_heard(owners[n], said[n], heard[2 * n] or 1) then
      second = second or n
      if is_lively(ticket, owners[n], said[n]) then
        first = n
        break
      end
    end
  end
  remove(line, gone)
  first = first or second
  return page[first], said[first]
end

-- Grants the lock, which is free, to the ticket that is preferred, or else to the first one whose
-- session lives and is heard. Without one the lock stays free, and only an empty queue
-- ends the mark. A ticket of another kind of lock, which used the name before, is dropped. Returns
-- the ticket, or '', its stamp, the number of the heartbeat that paid, and how long the hold lasts.
local function hand_off(floor)
  local ticket, life = prefer()
  local next_living = not ticket and search(line, 'from', is_heard)
  for _ = 1, ticket and 0 or 129 do
    ticket, life = next_living()
    if not ticket or #ticket == 42 then
      break
    end
    redis.call('ZREM', line, ticket)
  end
  if ticket and #ticket ~= 42 then
    ticket, more = nil, 1
  end
  if not ticket then
    marked = more == 1 or redis.call('EXISTS', line) == 1
    set_free(floor, marked)
    return '', nil, nil, 0
  end
  local stamp, left = grant(ticket, life, floor)
  redis.call('ZREM', line, ticket)
  return ticket, stamp, string.sub(life, 17, 36), left
end
