-- queue/alive
-- Whether a session is alive at that time, by its field. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and counts no more.
--
-- uses     nothing
-- defines  is_alive
local function is_alive(entry, at)
  local life = entry and string.sub(entry, 1, LIFE_END)
  return life and life > at and tonumber(life) - tonumber(at) <= MAX_LIFE_US
end
