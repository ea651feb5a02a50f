-- session/lacks
-- Whether the server does not know a command, the verb ZMSCORE or SPUBLISH. Without arguments it
-- does nothing: the server says that it does not know it, or that it wants arguments, whatever the
-- rights of the user are.
--
-- uses     nothing
-- defines  lacks
local function lacks(verb)
  local reply = redis.pcall(verb)
  return type(reply) == 'table' and string.find(string.lower(reply['err'] or ''), 'unknown', 1, true)
end
