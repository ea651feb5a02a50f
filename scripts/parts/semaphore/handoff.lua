-- Grants from the head of the line as long as it fits, at most 512 a call. A ticket for more than there is at all goes
-- when it is first, or when its session looks, which finds out by that. used is the sum of all holds in the key, those that have ended included.
local used, capacity = tonumber(scores[3] or 0), tonumber(scores[4])
-- How many stand in line, or more. Asked before the first write, as the type of lives is by whoever hands off: a key
-- that is foreign makes the call fail before it has an effect.
local waiting = redis.call('ZCARD', line)
local function weight_of(name)
  return tonumber(string.sub(name, 42, 51))
end
local function give_back(names)
  for _, name in ipairs(names) do
    used = used - weight_of(name)
  end
end
local counted = tonumber(scores[3]) -- the sum as the key has it
local function grant_in_line()
  local next_ticket = search(line, 'from')
  while used < capacity do
    local ticket, life = next_ticket()
    local weight = ticket and weight_of(ticket)
    if not ticket or weight <= capacity and used + weight > capacity then
      return
    elseif weight > capacity then
      redis.call('ZREM', line, ticket)
    elseif grants == 512 then
      more = 1
      return
    else
      used = used + weight
      grant(line, ticket, life, used, 'used')
      counted = used
    end
  end
end
local function hand_off()
  if waiting > 0 then
    grant_in_line()
  end
  if made and (used ~= counted or not scores[4]) then
    redis.call('ZADD', holder, used, 'used', capacity, 'capacity')
  end
end
