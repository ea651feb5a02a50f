-- include queue/alive
-- include queue/now
-- queue/heartbeat
-- Lengthens the life of the session in this queue: until when it counts as alive. before has the
-- fields of the session, 'from' and 'from2'. Life and number are never made less while they count,
-- so a heartbeat that runs late, twice or out of order only adds. listening says whether this
-- server has a listener of the session; without it the field keeps what it says.
--
-- uses     heartbeat_us, heartbeats, is_alive, label, now, number, session
-- defines  heartbeat
local function heartbeat(before, listening)
  local entry, life, paid = before[1], string.format('%016.0f', tonumber(now) + heartbeat_us), number
  local was_alive = is_alive(entry, now)
  if was_alive then
    if string.sub(entry, 1, LIFE_END) > life then
      life = string.sub(entry, 1, LIFE_END)
    end
    if string.sub(entry, LIFE_END + 1, NUMBER_END) > paid then
      paid = string.sub(entry, LIFE_END + 1, NUMBER_END)
    end
  end
  listening = listening or was_alive and string.sub(entry, LISTENING_AT, LISTENING_AT) or '-'
  redis.call('HSET', heartbeats, session, life .. paid .. listening .. label)
  -- It is kept for ten minutes. For a session that stays alive, that is set every hundred seconds.
  local is_kept = was_alive and string.sub(entry, 1, 8) == string.sub(life, 1, 8)
  if not is_kept and type(redis.pcall('PEXPIRE', heartbeats, QUEUE_TTL_MS)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('HDEL', heartbeats, session)
    redis.call('PEXPIRE', heartbeats, QUEUE_TTL_MS)
  end
  -- Tickets of its own may be among those that were passed over: it was dead, or is alive by a
  -- clock that was set back behind the search. One that is not known has no ticket there.
  local is_back = entry and not was_alive
  for n = 2, 3 do
    is_back = is_back or was_alive and before[n] and string.sub(before[n], 1, LIFE_END) > now
  end
  if not entry and redis.call('HLEN', heartbeats) > MANY_SESSIONS then
    -- Sessions that ended leave their field behind. Each new one removes some.
    for _, field in ipairs(redis.call('HRANDFIELD', heartbeats, SESSIONS_SAMPLE)) do
      local other = #field == SESSION_LENGTH and redis.call('HGET', heartbeats, field)
      if other and (tonumber(string.sub(other, 1, LIFE_END)) or 0) + FORGET_AFTER_US < tonumber(now) then
        redis.call('HDEL', heartbeats, field)
        is_back = true -- or a session that is forgotten here, and comes back, would not be found
      end
    end
  end
  if is_back then
    redis.call('HDEL', heartbeats, 'from', 'from2')
  end
end
