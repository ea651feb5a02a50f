-- include holds/write
-- include queue/search
-- holds/ended
-- Holds that have ended are removed here and nowhere else: until then they count. first is when the
-- first of the holds that are left ends, nil if no hold is left, and left_us how long that is. A
-- thousand go at once; more_ended says that there are more.
--
-- uses     holder, made, more, now, scores
-- defines  find_first, first, is_unfinished, left_us, more_ended, remove_ended
local first, left_us, more_ended
local function find_first()
  first = made and redis.call('ZRANGE', holder, FIRST_STAMP, '+inf', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
  left_us = first and math.max(0, tonumber(first) - tonumber(now)) or 0
  more_ended = first and left_us == 0
end
local function remove_ended()
  find_first()
  local ended = {}
  if more_ended then
    ended = redis.call('ZRANGE', holder, FIRST_STAMP, now, 'BYSCORE', 'LIMIT', 0, ENDED_PAGE)
    if scores[3] then
      redis.call('ZADD', holder, 'XX', scores[3], 'used') -- a sender without the right to count removes nothing
    end
    redis.call('ZREM', holder, unpack(ended))
    find_first()
  end
  return ended
end
-- A poll is due at once if a search is not done, or holds that have ended are left.
local function is_unfinished()
  return math.max(more, more_ended and 1 or 0)
end
