-- include queue/now
-- queue/join
-- Makes a ticket at the end of the queues, of which queue is the one that gets it. Tickets rise,
-- also if the clock was set back.
--
-- uses     now
-- defines  join
local function join(queue, queues, ticket)
  local number = tonumber(now)
  for _, queue in ipairs(queues) do
    local tail = redis.call('ZRANGE', queue, -1, -1, 'WITHSCORES')[2]
    if tail and tonumber(tail) >= number then
      number = tonumber(tail) + 1
    end
  end
  redis.call('ZADD', queue, 'NX', string.format('%.0f', number), ticket)
  if type(redis.pcall('PEXPIRE', queue, QUEUE_TTL_MS)) == 'table' then
    -- A sender without the right to that leaves no key without an end.
    redis.call('ZREM', queue, ticket)
    redis.call('PEXPIRE', queue, QUEUE_TTL_MS)
  end
end
