-- lock/heartbeat v1
-- A session that waits for many locks sends a heartbeat for all of them. It is no poll: it touches
-- no queue, and hands nothing over. If there is more to do at a lock, it does nothing there and
-- says so.
--
-- KEYS[n]  lock  three by lock, at 3n-2 to 3n: holder, queue, heartbeats
--            holder         string: see lock/enter v1
--            queue       sorted set: see lock/enter v1
--            heartbeats  hash: see lock/enter v1
-- ARGV[1]  session  22 characters
-- ARGV[2]  heartbeat_us  what the heartbeat in this call gives the session, 30 seconds at the most
-- ARGV[3]  number  the heartbeat's: 12 digits and 8 random characters
-- ARGV[4]  stamps  of the holds that a poll of the session saw, 16 characters for each lock
-- returns  {now, waits, ...}  by lock: 1 that hold has the lock, and the session is alive; 0 a poll
--            is
--          due
-- effects  writes heartbeats, and makes none; publishes nothing
-- cost     O(locks): TIME, MGET and EXISTS; HMGET and HSET each; EXISTS each if a key is missing
local session, heartbeat_us, number, stamps = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
assert(string.find(heartbeat_us, '^[1-9]%d*$') and tonumber(heartbeat_us) < MAX_NUMBER
  and #number == NUMBER_LENGTH, 'bad argument')

-- include queue/alive
-- include queue/now

local values = redis.call('MGET', unpack(KEYS)) -- of a key that is no string it says nothing
local none_missing = redis.call('EXISTS', unpack(KEYS)) == #KEYS
local replies = {}
replies[1] = now
for n = 1, #KEYS / 3 do
  local holder, queue, heartbeats = KEYS[3 * n - 2], KEYS[3 * n - 1], KEYS[3 * n]
  local value, waits = values[3 * n - 2] or '', 0
  local is_seen = string.sub(value, 1, STAMP_END) == 'sb1l' .. string.sub(stamps, STAMP_LENGTH * n - (STAMP_LENGTH - 1), STAMP_LENGTH * n)
  if not none_missing and redis.call('EXISTS', queue) == 0 then
    is_seen = false -- its tickets are lost
  end
  if is_seen and string.sub(value, MODE_AT, MODE_AT) ~= '-' and string.sub(value, MARK_AT, MARK_AT) == 'q' then
    local before = redis.pcall('HMGET', heartbeats, session, 'from', 'from2')
    local known, from, from2 = before[1], before[2] or '', before[3] or ''
    -- A session that was dead may have tickets among those that were passed over, and so may one
    -- whose server had its clock set back. A poll handles that.
    if is_alive(known, now) and string.sub(from, 1, LIFE_END) <= now and string.sub(from2, 1, LIFE_END) <= now then
      local life, paid = string.format('%016.0f', tonumber(now) + heartbeat_us), number
      if string.sub(known, 1, LIFE_END) > life then
        life = string.sub(known, 1, LIFE_END)
      end
      if string.sub(known, LIFE_END + 1, NUMBER_END) > paid then
        paid = string.sub(known, LIFE_END + 1, NUMBER_END)
      end
      if redis.pcall('HSET', heartbeats, session, life .. paid .. string.sub(known, LISTENING_AT)) == 0 then
        waits = 1
      end
    end
  end
  replies[n + 1] = waits
end
return replies
