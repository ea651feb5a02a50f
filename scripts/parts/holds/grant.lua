-- include holds/write
-- include queue/publish
-- holds/grant
-- Grants a hold to a ticket: for the rest of its session's life, which the message says what
-- heartbeat paid for, and at least a second, so that no ticket is lost for a few milliseconds.
--
-- uses     announce, caller, floor, now, write_hold
-- defines  grant, granted, grants
local granted, grants = {}, 0 -- the token's stamp by ticket, and how many
local function grant(queue, ticket, life, ...)
  local till = string.format('%016.0f', tonumber(now) + MIN_GRANT_US)
  if string.sub(life, 1, LIFE_END) > till then
    till = string.sub(life, 1, LIFE_END)
  end
  redis.call('ZREM', queue, ticket)
  write_hold(ticket .. string.sub(life, LISTENING_AT + 1), till, ...)
  granted[ticket], grants = floor, grants + 1
  if ticket ~= caller then
    announce(ticket, string.sub(life, LIFE_END + 1, NUMBER_END))
  end
end
