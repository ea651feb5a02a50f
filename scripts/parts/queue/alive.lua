-- queue/alive
-- Whether a session is alive at that time, by its field. A life that is further ahead than any
-- heartbeat gives was given before the server's clock was set back, and counts no more; nor does
-- one that is no number.
--
-- uses     nothing
-- defines  is_alive
local function is_alive(entry, at)
  local alive_till = tonumber(string.sub(entry or '', 1, LIFE_END))
  return alive_till and alive_till > tonumber(at) and alive_till - tonumber(at) <= MAX_LIFE_US
end
