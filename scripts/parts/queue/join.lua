-- include queue/now
-- queue/join
-- Makes a ticket at the end of the queues, of which line is the one that gets it. Tickets rise,
-- also if the clock was set back.
--
-- uses     nothing
-- defines  join
local function join(line, lines, ticket)
  local number = tonumber(now)
  for _, line in ipairs(lines) do
    local tail = redis.call('ZRANGE', line, -1, -1, 'WITHSCORES')[2]
    if tail and tonumber(tail) >= number then
      number = tonumber(tail) + 1
    end
  end
  redis.call('ZADD', line, 'NX', string.format('%.0f', number), ticket)
  if type(redis.pcall('PEXPIRE', line, 600000)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('ZREM', line, ticket)
    redis.call('PEXPIRE', line, 600000)
  end
end
