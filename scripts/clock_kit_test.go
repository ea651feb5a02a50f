// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// timed goes before a script in the place of clocked, if keys are to end by the clock of the fixture as well: a lock of kind
// l has the end of its hold in the life of its key. All ends are set ten years later, so that the server ends no key.
//
//nolint:dupword // blocks of Lua end one behind the other
const timed = redistest.KeyEnds + `local server, us, seconds = redis, table.remove(ARGV), table.remove(ARGV)
local later = 315360000000
local at = later + seconds * 1000 + math.floor(us / 1000)
local function ends(key)
  local known, ms = pcall(key_ends, key) -- the user may have no right to ask
  return known and ms or -1
end
local function is_over(key)
  return ends(key) >= 0 and ends(key) <= at
end
local function run(how, command, key, ...)
  local args = {...}
  if command == 'TIME' then
    return {seconds, us}
  elseif command == 'PTTL' then
    return pcall(key_ends, key) and (ends(key) < 0 and ends(key) or ends(key) - at) or server[how](command, key)
  elseif command == 'PEXPIRETIME' then
    return ends(key) < 0 and ends(key) or ends(key) - later
  elseif command == 'PEXPIRE' then
    return server[how]('PEXPIREAT', key, string.format('%.0f', at + args[1]), unpack(args, 2))
  elseif command == 'SET' and args[2] == 'PX' then
    return server[how]('SET', key, args[1], 'PXAT', string.format('%.0f', at + args[3]))
  end
  local reply = server[how](command, key, ...)
  if command == 'GET' and is_over(key) then
    return false
  elseif command == 'MGET' and not reply['err'] then
    for n, each in ipairs({key, ...}) do
      reply[n] = not is_over(each) and reply[n]
    end
  end
  return reply
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
`

// laterMS is what timed adds to each end.
const laterMS = 315_360_000_000

// ttl returns how long a key lives, in milliseconds: -1 without an end, and -2 if it is missing.
func (f *fixture) ttl(key string) int64 {
	f.Helper()
	if !f.isTimed {
		ms, _ := f.server.MustDo(f, "PTTL", key).(int64)
		return ms
	}
	ends := redistest.EndOf(f, f.server, key)
	if ends < 0 {
		return ends
	}
	return max(ends-laterMS-f.clock/1000, 0)
}

// expires sets the life of a key.
func (f *fixture) expires(key string, life time.Duration) {
	f.Helper()
	if !f.isTimed {
		f.server.MustDo(f, "PEXPIRE", key, life.Milliseconds())
		return
	}
	f.server.MustDo(f, "PEXPIREAT", key, laterMS+f.clock/1000+life.Milliseconds())
}
