-- Lengthens the life of the session in this line: until when its tickets count as living. known and
-- from are what lives says of the session and of 'from'. Life and number are never made less while they
-- count, so what runs late, twice or out of order only adds.
local function beat(known, from)
  local life, paid = string.format('%016.0f', tonumber(now) + lw_us), number
  if living(known, now) then
    if string.sub(known, 1, 16) > life then
      life = string.sub(known, 1, 16)
    end
    if string.sub(known, 17, 36) > paid then
      paid = string.sub(known, 17, 36)
    end
  end
  redis.call('HSET', lives, session, life .. paid .. label)
  redis.call('PEXPIRE', lives, 600000)
  if known and from and not living(known, string.sub(from, 1, 16)) then
    -- Tickets of its own may stand among those that were passed over. Of one that is not known none do.
    redis.call('HDEL', lives, 'from')
  end
  if not known and redis.call('HLEN', lives) > 64 then
    -- Sessions that went for good leave their field behind. Each that comes clears away some.
    for _, field in ipairs(redis.call('HRANDFIELD', lives, 16)) do
      local other = field ~= 'from' and redis.call('HGET', lives, field)
      if other and tonumber(string.sub(other, 1, 16)) + 60000000 < tonumber(now) then
        redis.call('HDEL', lives, field)
      end
    end
  end
end
