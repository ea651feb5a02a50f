-- queue/living
-- Whether a session lived at that time, by what lives says of it. A life that is further ahead than
-- any heartbeat gives was given before the server's clock was set back, and says nothing any more.
--
-- uses     nothing
-- defines  living
local function living(known, at)
  local life = known and string.sub(known, 1, 16)
  return life and life > at and tonumber(life) - tonumber(at) <= 30000000
end
