// SPDX-License-Identifier: Apache-2.0

package walks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// A walk runs scripts by a clock of its own. clockwork goes around a script and replaces what the
// server would do by its clock: TIME, and the expiry of keys. A key that is to live for so many
// milliseconds gets an expiry in the far future of the server, by far; it is deleted here once the
// walk's clock is past it. So the same walk always takes the same steps, however slow the machine
// is.
//
// Messages are returned and not sent. The last two arguments are the walk's clock, a stamp, and the
// mode: "dry" restores all keys when the script is done. The reply is {how, reply, channel,
// message, ...}: how is 1 if the script returned, 2 if it returned an error of the server, 0 if it
// failed.
//
//nolint:dupword // blocks of Lua end one behind the other
const clockwork = redistest.KeyEnds + `
local server, clock, mode = redis, table.remove(ARGV), table.remove(ARGV)
local far, now_ms = 3155760000000, math.floor(tonumber(clock) / 1000)
local messages, seen, order = {}, {}, {}
local function meet(key)
  if seen[key] == nil then
    local at = key_ends(key)
    if at >= 0 and at - far < now_ms then
      server.call('DEL', key)
    end
    seen[key], order[#order + 1] = mode == 'dry' and {server.call('DUMP', key), at} or true, key
  end
end
local function ends(ms)
  local text = type(ms) == 'number' and string.format('%.17g', ms) or ms
  return string.match(text, '^%-?%d+$') and string.format('%.0f', far + now_ms + tonumber(text))
end
local function left(at)
  return at < 0 and at or math.max(at - far - now_ms, 0)
end
local function run(how, command, key, ...)
  if command == 'TIME' then
    return {string.sub(clock, 1, 10), string.format('%.0f', tonumber(string.sub(clock, 11)))}
  elseif command == 'INFO' then
    return server[how](command, key, ...)
  elseif command == 'PUBLISH' or command == 'SPUBLISH' then
    messages[#messages + 1], messages[#messages + 2] = key, ...
    return 0
  end
  meet(key)
  local args = {...}
  if command == 'PTTL' or command == 'PEXPIRETIME' then
    local at = key_ends(key)
    return command == 'PTTL' and left(at) or at < 0 and at or at - far
  elseif command == 'PEXPIRE' and ends(args[1]) then
    local reply = server[how]('PEXPIREAT', key, ends(args[1]), unpack(args, 2))
    if reply == 1 and tonumber(args[1]) <= 0 then
      server.call('DEL', key)
    end
    return reply
  elseif command == 'SET' then
    for n = 2, #args - 1 do
      if args[n] == 'PX' and ends(args[n + 1]) then
        args[n], args[n + 1] = 'PXAT', ends(args[n + 1])
      end
    end
  end
  return server[how](command, key, unpack(args))
end
for _, key in ipairs(KEYS) do
  meet(key)
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
local function script()
`

//nolint:dupword // see above
const clockworkEnd = `
end
local done, reply = pcall(script)
if mode == 'dry' then
  for _, key in ipairs(order) do
    server.call('DEL', key)
    if seen[key][1] and server.call('EXISTS', key) == 0 then
      server.call('RESTORE', key, seen[key][2] < 0 and 0 or string.format('%.0f', seen[key][2]), seen[key][1], 'ABSTTL')
    end
  end
end
local how = done and 1 or 0
if type(reply) == 'table' and reply['err'] then
  how, reply = done and 2 or 0, reply['err']
end
return {how, reply, unpack(messages)}
`

// stage is a server with a clock that a walk sets, and the keys of one name there.
type stage struct {
	testing.TB

	client rueidis.Client
	name   string
	clock  int64 // what TIME returns, a stamp
	now    int64 // the true time, by which sessions count: it never jumps
	high   int64 // the latest that the clock ever was
}

// stages counts them, so that no two meet on a key if tests are repeated, and knows which scripts
// the server has.
var stages = &loaded{digests: make(map[*scripts.Script]string)}

// loaded has the digests of the scripts with the clockwork around them.
type loaded struct {
	sync.Mutex

	n       int
	digests map[*scripts.Script]string
}

func (l *loaded) next() int {
	l.Lock()
	defer l.Unlock()
	l.n++
	return l.n
}

func (l *loaded) digest(s *stage, script *scripts.Script) string {
	l.Lock()
	defer l.Unlock()
	if l.digests[script] == "" {
		l.digests[script] = fmt.Sprint(s.do("SCRIPT", "LOAD", clockwork+script.Source+clockworkEnd))
	}
	return l.digests[script]
}

func newStage(tb testing.TB) *stage {
	tb.Helper()
	client := server.Client(tb, func(o *rueidis.ClientOption) { o.DisableCache, o.ForceSingleClient = true, true })
	return &stage{
		TB: tb, client: client, name: fmt.Sprintf("sb:{walk %d}:", stages.next()), clock: noon, now: noon, high: noon,
	}
}

// result is the reply of a script, and the messages that it sent.
type result struct {
	reply any
	err   string // the error that the script returned, or failed by
	said  []message

	before, after string // the text of the holder key
}

type message struct{ channel, text string }

// eval runs a request by the walk's clock, and returns when a key ended by then, as expiries does.
func (s *stage) eval(r *request, key string) (result, int64) {
	s.Helper()
	expiry := s.client.B().Pexpiretime().Key(key).Build()
	get := func() rueidis.Completed { return s.client.B().Get().Key(key).Build() }
	results := s.client.DoMulti(context.Background(), expiry, get(), s.command(r, ""), get())
	reply, err := results[2].ToAny()
	require.NoError(s, err, r.script.Name)
	a := s.result(r, reply)
	a.before, _ = results[1].ToString()
	a.after, _ = results[3].ToString()
	return a, s.ended(results[0])
}

// ended returns what a key's expiry is by the walk's clock.
func (s *stage) ended(result rueidis.RedisResult) int64 {
	s.Helper()
	at, err := result.AsInt64()
	require.NoError(s, err)
	if at < 0 {
		return at
	}
	if at -= far; at < s.clock/1000 {
		return -2
	}
	return at
}

// probe runs requests in one go, each of which leaves no trace.
func (s *stage) probe(requests []*request) []result {
	s.Helper()
	commands := make([]rueidis.Completed, len(requests))
	for i, r := range requests {
		commands[i] = s.command(r, "dry")
	}
	results := make([]result, len(requests))
	for i, result := range s.client.DoMulti(context.Background(), commands...) {
		reply, err := result.ToAny()
		require.NoError(s, err, requests[i].script.Name)
		results[i] = s.result(requests[i], reply)
	}
	return results
}

func (s *stage) command(r *request, mode string) rueidis.Completed {
	s.Helper()
	words := make([]string, 0, len(r.args)+2)
	for _, arg := range r.args {
		words = append(words, fmt.Sprint(arg))
	}
	words = append(words, mode, digits(s.clock))
	digest := stages.digest(s, r.script)
	return s.client.B().Evalsha().Sha1(digest).Numkeys(int64(len(r.keys))).Key(r.keys...).Arg(words...).Build()
}

func (s *stage) result(r *request, reply any) result {
	s.Helper()
	list, _ := reply.([]any)
	require.GreaterOrEqual(s, len(list), 2)
	a := result{reply: list[1]}
	if list[0] != int64(1) {
		a.err = fmt.Sprint(list[1])
	}
	for n := 2; n+1 < len(list); n += 2 {
		a.said = append(a.said, message{fmt.Sprint(list[n]), fmt.Sprint(list[n+1])})
	}
	if strings.Contains(r.script.Source, "  by key: ") { // of one key here
		one, _ := list[1].([]any)
		require.Len(s, one, 1)
		a.reply = one[0]
	}
	return a
}

// do sends a plain command.
func (s *stage) do(args ...any) any {
	s.Helper()
	words := make([]string, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	reply, err := s.client.Do(context.Background(), s.client.B().Arbitrary(words...).Build()).ToAny()
	if rueidis.IsRedisNil(err) {
		return nil
	}
	require.NoError(s, err, words)
	return reply
}

// passes lets time pass. Keys expire when they are met next.
func (s *stage) passes(us int64) {
	s.now += us
	s.steps(us)
}

// steps sets the clock forward or back, while no time passes.
func (s *stage) steps(us int64) {
	s.clock += us
	s.high = max(s.high, s.clock)
}

// far is what clockwork adds to the expiry of keys, in milliseconds.
const far = 3_155_760_000_000

// expires lets a key end at that time of the clock, if it is there.
func (s *stage) expires(key string, at int64) {
	s.Helper()
	s.do("PEXPIREAT", key, far+at/1000)
}

// expiries returns when keys end by the clock, in milliseconds: -1 for one that does not, and -2
// for one that is not there.
func (s *stage) expiries(keys []string) []int64 {
	s.Helper()
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = s.client.B().Pexpiretime().Key(key).Build()
	}
	all := make([]int64, len(keys))
	for i, result := range s.client.DoMulti(context.Background(), commands...) {
		all[i] = s.ended(result)
	}
	return all
}
