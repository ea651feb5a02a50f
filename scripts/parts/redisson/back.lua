-- include redisson/notify
-- include redisson/permits
-- include redisson/put
-- redisson/back
-- Takes away those of the permits that are held, and counts them as free; returns how many. If the
-- count is refused, they are held as before, which needs only the rights of an acquire.
--
-- uses     channel, permits, timeouts, verb
-- defines  give_back
local function give_back(ids)
  local ends = redis.call('ZMSCORE', timeouts, unpack(ids))
  local back = redis.call('ZREM', timeouts, unpack(ids))
  if back == 0 or not free then
    return back -- if the number was lost, the next acquire writes it anew
  end
  local now_free = redis.pcall('INCRBY', permits, back)
  if type(now_free) == 'table' then
    for n, id in ipairs(ids) do
      if ends[n] then
        put({id}, ends[n])
      end
    end
    redis.call('INCRBY', permits, back) -- refused: so is this, and all
  elseif now_free > 0 then
    notify(verb, channel, string.format('%.0f', now_free))
  end
  return back
end
