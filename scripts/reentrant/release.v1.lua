-- reentrant/release v1
-- Gives locks back that their holds still have, and tells who waits.
--
-- KEYS[n]  holder   string: see reentrant/acquire v1
-- ARGV[n]  request  five by key, at 5n-4 to 5n: held, floor, verb, channel, keep_ms
--            held     what the key says where nobody waits: 'sb1r', stamp, hold, 22 dashes, label
--            floor    stamp that is not before the last token that the hold used
--            verb     PUBLISH or SPUBLISH
--            channel  where waiters listen
--            keep_ms  how long the floor is kept
-- returns  reply, {reply, ...}  bare for one key, a list for more; each is
--            0         this hold has it no more
--            1         given back; nobody of another session waits, as far as is known
--            2         given back, and a waiter of another session was told
--            an error  the server's refusal of that key
-- effects  writes KEYS: the floor stays for keep_ms; publishes 8 characters of the session to channel where a mark stands
-- cost     O(keys): GET, DEL, SET for one key; MGET and DEL once and SET each for more; and the message where a mark stands
local values = #KEYS > 1 and redis.pcall('MGET', unpack(KEYS)) or {}
local replies = {}
local wrote = false
for n = 1, #KEYS do
  local holder, held, floor = KEYS[n], ARGV[5 * n - 4], ARGV[5 * n - 3]
  local verb, channel, keep_ms = ARGV[5 * n - 2], ARGV[5 * n - 1], ARGV[5 * n]
  local value = values[n] or redis.pcall('GET', holder)
  local reply, marked = 1, '----------------------'

  if value ~= held then
    if type(value) == 'table' then
      reply = value
    elseif not value or string.sub(value, 1, 4) ~= 'sb1r' or string.sub(value, 21, 61) ~= string.sub(held, 21, 61) then
      reply = 0
    else
      marked = string.sub(value, 62, 83)
      if marked ~= '----------------------' and marked ~= string.sub(held, 21, 42) then
        reply = 2
      end
    end
  end

  if reply == 1 or reply == 2 then
    -- DEL is never refused for lack of memory, and what follows the first write is not either.
    if not wrote then
      local gone = redis.pcall('DEL', holder)
      wrote = type(gone) ~= 'table'
      if not wrote then
        reply = gone
      end
    end
    if wrote then
      local kept = redis.pcall('SET', holder, 'sb1-' .. floor, 'PX', keep_ms)
      if kept['err'] then
        redis.pcall('DEL', holder)
      end
      if marked ~= '----------------------' then
        redis.pcall(verb, channel, string.sub(held, 21, 28))
      end
    end
  end
  if #KEYS == 1 then
    return reply
  end
  replies[n] = reply
end
return replies
