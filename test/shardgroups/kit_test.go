// SPDX-License-Identifier: Apache-2.0

package shardgroups_test

import (
	"crypto/sha1" //nolint:gosec // what the server calls a script by
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

const (
	// noon is the stamp at which every group begins, in 2026.
	noon int64 = 1_780_000_000_000_000
	// millisecond and second are in the unit of stamps.
	millisecond, second int64 = 1_000, 1_000_000
	// lease and calm are those of members that say nothing else.
	lease, calm = 15 * second, 2 * second
	// never is the version that has seen nothing.
	never = "0000000000000000"
	// unlimited is the limit of a member that says no other.
	unlimited = 65_536
)

// shim goes around a script. It replaces the clock by the last argument, keeps messages, and counts commands. The reply is
// {commands, reply, channel, message, ...}.
const shim = `local server, clock, count, messages = redis, table.remove(ARGV), 0, {}
local function run(how, command, key, ...)
  count = count + 1
  assert(count < 10000, 'it has no end')
  if command == 'TIME' then
    return {string.sub(clock, 1, 10), string.format('%.0f', tonumber(string.sub(clock, 11)))}
  elseif command == 'PUBLISH' then
    messages[#messages + 1], messages[#messages + 2] = key, ...
    return 0
  end
  return server[how](command, key, ...)
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
local function script()
`

const shimEnd = `
end
local reply = script()
if type(reply) == 'table' and reply['err'] then
  return reply
end
return {count, reply, unpack(messages)}
`

// group is the keys of one shard group, by a clock of its own.
type group struct {
	testing.TB

	server   *redistest.PooledServer
	keys     []any
	clock    int64
	ids      int
	session  int       // the session that joins, 0 for another one each time
	commands int       // what the last call took
	messages []string  // what the last call published: channel and message, one behind the other
	plant    *mistake  // is in the scripts; nil for none
	sent     []func()  // sends one of the last calls again, and drops the reply
	compares bool      // polls are compared with whole ones
	atRest   int       // how many of these were at rest
	audited  [2]string // the newest version at the last audit, and what the keys had then
}

// mostSent is how many calls are remembered, and repeated those that may arrive twice. Later settings follow earlier ones.
const mostSent = 50

var repeated = []*scripts.Script{proto.ShardsJoinScript, proto.ShardsPollScript, proto.ShardsReleaseScript, proto.ShardsLeaveScript}

// remember remembers a call that a network may deliver twice.
func (g *group) remember(script *scripts.Script, args []any) {
	if !slices.Contains(repeated, script) {
		return
	}
	g.sent = append(g.sent[max(0, len(g.sent)-mostSent+1):], func() {
		_, err := g.try(script, args...)
		require.NoError(g, err, "%s %q", script.Name, args)
	})
}

var groups atomic.Int64

func newGroup(tb testing.TB) *group {
	tb.Helper()
	redistest.NeedServer(tb)
	g := &group{TB: tb, server: server, clock: noon}
	if f, finds := tb.(*finder); finds {
		g.plant = f.mistake
	}
	base := fmt.Sprintf("sb:{%s %d}:shards", tb.Name(), groups.Add(1))
	for _, end := range []string{"", ":members", ":ends", ":donors", ":takers", ":proven", ":rows", ":index"} {
		g.keys = append(g.keys, base+end)
	}
	tb.Cleanup(g.drop)
	return g
}

// drop deletes the keys.
func (g *group) drop() { g.server.MustDo(g, append([]any{"DEL"}, g.keys...)...) }

// texts has the shimmed text and the digest of each script, with each mistake.
var texts sync.Map

type shimmed struct{ text, digest string }

type shimKey struct {
	script *scripts.Script
	plant  *mistake
}

// call runs a script at the group's clock.
func (g *group) call(script *scripts.Script, args ...any) []any {
	g.Helper()
	compare := func([]any) {}
	if g.compares && script == proto.ShardsPollScript {
		compare = g.compareWhole(args)
	}
	values, err := g.try(script, args...)
	require.NoError(g, err, "%s %q", script.Name, args)
	compare(values)
	g.remember(script, args)
	return values
}

// try is call that returns the server's error.
func (g *group) try(script *scripts.Script, args ...any) ([]any, error) {
	found, known := texts.Load(shimKey{script, g.plant})
	if !known {
		text := shim + g.plant.in(script.Source) + shimEnd
		found = shimmed{text, fmt.Sprintf("%x", sha1.Sum([]byte(text)))} //nolint:gosec // see the import
		texts.Store(shimKey{script, g.plant}, found)
	}
	s, _ := found.(shimmed)
	words := append([]any{"EVALSHA", s.digest, len(g.keys)}, g.keys...)
	words = append(append(words, args...), digits(g.clock))
	reply, err := g.server.Do(words...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		words[0], words[1] = "EVAL", s.text
		reply, err = g.server.Do(words...)
	}
	if err != nil {
		return nil, err
	}
	list, _ := reply.([]any)
	g.commands = int(integer(list[0]))
	g.messages = nil
	for _, m := range list[2:] {
		g.messages = append(g.messages, textOf(m))
	}
	values, _ := list[1].([]any)
	return values, nil
}

// digits is a stamp as it travels.
func digits(stamp int64) string { return fmt.Sprintf("%016d", stamp) }

func integer(value any) int64 {
	n, isInteger := value.(int64)
	if !isInteger {
		panic(fmt.Sprintf("%T %v is no integer", value, value)) // a test's own mistake
	}
	return n
}

func textOf(value any) string {
	text, isText := value.(string)
	if !isText {
		panic(fmt.Sprintf("%T %v is no text", value, value)) // a test's own mistake
	}
	return text
}

func stampOf(text string) int64 {
	stamp, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return stamp
}

// settings are what a member says when it joins.
type settings struct {
	weight, limit, count, exact int
	lease, calm                 int64
	moves                       int
	drain                       int64
	old, mode, requested, known string
}

func defaults(count int) settings {
	return settings{weight: 1, limit: unlimited, count: count, lease: lease, calm: calm, moves: 65_536, mode: "l", requested: strconv.Itoa(count)}
}

// join returns the reply of a join of a new id.
func (g *group) join(s settings) []any {
	g.Helper()
	g.ids++
	session := g.ids
	if g.session > 0 {
		session = g.session
	}
	return g.joinAs(fmt.Sprintf("%022d%019d", session, g.ids), s)
}

func (g *group) joinAs(id string, s settings) []any {
	g.Helper()
	return g.call(proto.ShardsJoinScript, id, digits(g.clock+second), s.lease, s.weight, s.limit, s.count, s.exact, s.calm, s.moves, s.drain, s.old, "host:1", "address", s.mode, s.requested, s.known)
}
