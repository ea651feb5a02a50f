-- include holds/write
-- include queue/publish
-- holds/grant
-- Grants a hold to a ticket: for the rest of its session's life, which the message says what
-- heartbeat paid for, and at least a second, so that no ticket is lost for a few milliseconds.
--
-- uses     caller
-- defines  granted, grants, grant
local granted, grants = {}, 0 -- the token's stamp by ticket, and how many
local function grant(queue, ticket, life, ...)
  local till = string.format('%016.0f', tonumber(now) + 1000000)
  if string.sub(life, 1, 16) > till then
    till = string.sub(life, 1, 16)
  end
  redis.call('ZREM', queue, ticket)
  write_hold(ticket .. string.sub(life, 38), till, ...)
  granted[ticket], grants = floor, grants + 1
  if ticket ~= caller then
    announce(ticket, string.sub(life, 17, 36))
  end
end
