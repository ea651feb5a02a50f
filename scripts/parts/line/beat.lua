-- include line/living
-- include line/now
-- line/beat
-- Lengthens the life of the session in this line: until when its tickets count as living. known is
-- what lives says of the session. Life and number are never made less while they count, so what
-- runs late, twice or out of order only adds.
--
-- uses     label, lives, lw_us, number, session
-- defines  beat
local function beat(known)
  local life, paid = string.format('%016.0f', tonumber(now) + lw_us), number
  local lived = living(known, now)
  if lived then
    if string.sub(known, 1, 16) > life then
      life = string.sub(known, 1, 16)
    end
    if string.sub(known, 17, 36) > paid then
      paid = string.sub(known, 17, 36)
    end
  end
  redis.call('HSET', lives, session, life .. paid .. label)
  if type(redis.pcall('PEXPIRE', lives, 600000)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('HDEL', lives, session)
    redis.call('PEXPIRE', lives, 600000)
  end
  -- Tickets of its own may stand among those that were passed over: it was dead, or lives by a
  -- clock that was set back behind the search. Of one that is not known none do.
  local back = known and not lived
  for _, from in ipairs(lived and redis.call('HMGET', lives, 'from', 'from2') or {}) do
    back = back or from and string.sub(from, 1, 16) > now
  end
  if not known and redis.call('HLEN', lives) > 64 then
    -- Sessions that went for good leave their field behind. Each that comes clears away some.
    for _, field in ipairs(redis.call('HRANDFIELD', lives, 16)) do
      local other = #field == 22 and redis.call('HGET', lives, field)
      if other and tonumber(string.sub(other, 1, 16)) + 60000000 < tonumber(now) then
        redis.call('HDEL', lives, field)
        back = true -- or whoever is forgotten here, and comes, would not be found where it stands
      end
    end
  end
  if back then
    redis.call('HDEL', lives, 'from', 'from2')
  end
end
