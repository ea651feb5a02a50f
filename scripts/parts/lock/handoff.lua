-- include line/search
-- include lock/free
-- include lock/grant
-- include lock/holder
-- lock/handoff
-- Gives the lock, which is free, to the first ticket whose session lives. If none lives the lock
-- stays free, and only an empty queue ends the mark. A ticket of another kind of lock, which used
-- the name before, is dropped. Returns the ticket, or '', its stamp, the number of the heartbeat
-- that paid, and how long the hold lasts.
--
-- uses     line
-- defines  hand_off
local function hand_off(floor)
  local next_living = search(line, 'from')
  local ticket, life = next_living()
  for _ = 1, 128 do
    if not ticket or #ticket == 42 then
      break
    end
    redis.call('ZREM', line, ticket)
    ticket, life = next_living()
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
