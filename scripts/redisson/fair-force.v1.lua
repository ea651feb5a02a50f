-- redisson/fair-force v1
-- Takes a lock, as Redisson's RFairLock has it, from a hold that somebody else has, and tells the first in line. Sent again it finds the
-- hold gone.
--
-- KEYS[1]  lock       hash: see redisson/acquire v1
-- KEYS[2]  queue      list: see redisson/fair-acquire v1
-- KEYS[3]  deadlines  sorted set: see redisson/fair-acquire v1
-- ARGV[1]  hold       the field of who has it, as far as the sender knows
-- ARGV[2]  verb       PUBLISH or SPUBLISH, or both with a blank between
-- ARGV[3]  channel    where waiters listen, without the hold that it ends with
-- ARGV[4]  told       the channel of the hold's session, where it is one of ours
-- returns  0          this hold has it no more
--          1          taken; the first in line and the hold's session were told
--          an error   the server's refusal
-- effects  writes the KEYS; publishes 0 to those who lost their places and to the first in line, and KEYS[1] to told
-- cost     O(1): TIME, HMGET, DEL, LINDEX, ZSCORE, and two messages
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local hold, verb, channel, told = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

-- part line/now
-- The only clock: the server's microseconds since 1970, as 16 digits. Equal lengths compare as texts.
local time = redis.call('TIME')
local now = time[1] .. string.sub('00000' .. time[2], -6)
-- end line/now

-- part redisson/tell
-- Tells who listens to a channel, by each of so many commands with a blank between, and answers how many hear it as far as
-- this node knows. Whoever is not told looks, so a refusal changes nothing.
local function tell(verbs, channel, message)
  local heard = 0
  for verb in string.gmatch(verbs, '%S+') do
    local here = redis.pcall(verb, channel, message)
    if type(here) == 'number' then
      heard = heard + here
    end
  end
  return heard
end
-- end redisson/tell

-- part redisson/queue
-- The first in line whose deadline is not over, or who is the sender of this, if there is one. Those before it lose their place, as
-- whoever comes takes it in Java; they are told, so that who lives stands in line again. Deadlines are milliseconds: the server's here, and those of each
-- client's clock where Java wrote them.
local ms = math.floor(tonumber(now) / 1000)
local function first()
  for _ = 1, 1000 do
    local owner = redis.call('LINDEX', queue, '0')
    local till = owner and redis.call('ZSCORE', deadlines, owner)
    if not owner or till and (owner == hold or tonumber(till) > ms) then
      return owner
    end
    redis.call('LPOP', queue)
    redis.call('ZREM', deadlines, owner)
    tell(verb, channel .. owner, '0')
  end
  return redis.call('LINDEX', queue, '0') -- not before the next call finds out whether it is
end
-- end redisson/queue

-- A hash with a mode is a read-write lock's. Java names the fields of both by client and thread.
local fields = redis.pcall('HMGET', lock, hold, 'mode')
if fields['err'] and string.sub(fields['err'], 1, 9) ~= 'WRONGTYPE' then
  return fields
end
if not fields[1] or fields[2] then
  return 0
end
redis.call('DEL', lock)
local head = first()
if head then
  tell(verb, channel .. head, '0')
end
-- By the bus: whatever node the holder's session listens at.
redis.pcall('PUBLISH', told, lock)
return 1
