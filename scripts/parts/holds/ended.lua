-- Holds that have ended are taken out here and nowhere else: until then they count. first is when the first of those
-- that are left ends, nil where there are none. A thousand go at once; unended says that there are more.
local first, unended
local function find_first()
  first = made and redis.call('ZRANGE', holder, '1000000000000000', '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  unended = first and tonumber(first) <= tonumber(now)
end
local function take_out_ended()
  find_first()
  local ended = {}
  if unended then
    ended = redis.call('ZRANGE', holder, '1000000000000000', now, 'BYSCORE', 'LIMIT', 0, 1000)
    redis.call('ZREM', holder, unpack(ended))
    find_first()
  end
  return ended
end
