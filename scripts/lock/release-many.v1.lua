-- lock/release-many v1
-- Releases several locks for which no queue can exist. Any number of times.
--
-- KEYS[n]  holder  string: see lock/enter v1
-- ARGV[n]  request  three by key, at 3n-2 to 3n: ticket, used, keep_ms
--            ticket   id (41) and mode (1)
--            used     stamp of the last token that was used; '' for the last of its block
--            keep_ms  how long the floor is kept
-- returns  {reply, ...}  one a key; each is
--            0         the ticket does not hold
--            1         released
--            -3        a queue may exist: nothing is done, and lock/leave releases it
--            an error  the server's refusal of that key
-- effects  writes KEYS: the floors; publishes nothing
-- cost     O(keys): MGET once; SET each; GET if MGET finds no string

local values = redis.pcall('MGET', unpack(KEYS))
local replies = {}
for n = 1, #KEYS do
  local holder, ticket, used, keep_ms = KEYS[n], ARGV[3 * n - 2], ARGV[3 * n - 1], ARGV[3 * n]
  local value = values[n] or redis.pcall('GET', holder)
  local reply = 0
  if type(value) == 'table' then
    reply = value
  elseif value and string.sub(value, 1, 4) == 'sb1l' and string.sub(value, ID_START, MODE_AT) == ticket then
    reply = -3
    if string.sub(value, MARK_AT, MARK_AT) ~= 'q' then
      reply = 1
      local floor = string.sub(value, STAMP_START, STAMP_END)
      if #used ~= STAMP_LENGTH or string.find(used, '%D') then
        floor = string.format('%016.0f', tonumber(floor) + (TOKEN_BLOCK - 1))
      elseif used > floor then
        floor = used
      end
      local text = 'sb1-' .. floor
      if redis.pcall('SET', holder, text, 'PX', keep_ms)['err'] then
        -- DEL takes no memory, and makes the server accept what follows.
        local gone = redis.pcall('DEL', holder)
        redis.pcall('SET', holder, text, 'PX', keep_ms)
        if type(gone) == 'table' then
          reply = gone
        end
      end
    end
  end
  replies[n] = reply
end
return replies
