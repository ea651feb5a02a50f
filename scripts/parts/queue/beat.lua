-- include queue/living
-- include queue/now
-- queue/beat
-- Lengthens the life of the session in this queue: until when its tickets count as living. before
-- is what lives said: of the session, and in 'from' and 'from2'. Life and number are never made
-- less while they count, so what runs late, twice or out of order only adds. ear says whether this
-- server has a listener of the session; if it is not given it stays.
--
-- uses     label, lives, lw_us, number, session
-- defines  beat
local function beat(before, ear)
  local known, life, paid = before[1], string.format('%016.0f', tonumber(now) + lw_us), number
  local lived = living(known, now)
  if lived then
    if string.sub(known, 1, 16) > life then
      life = string.sub(known, 1, 16)
    end
    if string.sub(known, 17, 36) > paid then
      paid = string.sub(known, 17, 36)
    end
  end
  ear = ear or lived and string.sub(known, 37, 37) or '-'
  redis.call('HSET', lives, session, life .. paid .. ear .. label)
  -- It is kept for ten minutes. For a session that lives, that is set every hundred seconds.
  local is_kept = lived and string.sub(known, 1, 8) == string.sub(life, 1, 8)
  if not is_kept and type(redis.pcall('PEXPIRE', lives, 600000)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('HDEL', lives, session)
    redis.call('PEXPIRE', lives, 600000)
  end
  -- Tickets of its own may be among those that were passed over: it was dead, or lives by a clock
  -- that was set back behind the search. One that is not known has no ticket there.
  local back = known and not lived
  for n = 2, 3 do
    back = back or lived and before[n] and string.sub(before[n], 1, 16) > now
  end
  if not known and redis.call('HLEN', lives) > 64 then
    -- Sessions that ended leave their field behind. Each new one removes some.
    for _, field in ipairs(redis.call('HRANDFIELD', lives, 16)) do
      local other = #field == 22 and redis.call('HGET', lives, field)
      if other and tonumber(string.sub(other, 1, 16)) + 60000000 < tonumber(now) then
        redis.call('HDEL', lives, field)
        back = true -- or a session that is forgotten here, and comes back, would not be found
      end
    end
  end
  if back then
    redis.call('HDEL', lives, 'from', 'from2')
  end
end
