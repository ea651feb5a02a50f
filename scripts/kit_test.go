// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"context"
	"crypto/sha1"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// patience is how long a test waits for what must happen. It is reached by failing tests only.
const patience = 20 * time.Second

// noon is the time at which the frozen server stands: a stamp of 2026.
const noon int64 = 1_780_000_000_000_000

const (
	// lease is long enough for any test, in milliseconds.
	lease = 30_000
	// later is a stamp that no server has reached.
	later = "2000000000000000"
	// floorLife is for how long the floor of the tokens outlives a release, and keepMS the same as the scripts take it.
	floorLife = 90 * time.Second
	keepMS    = "90000"
)

// A hold, its session, and one of another session.
var (
	ours, theirs = holdOf("a"), holdOf("b")
	we, they     = session("a"), session("b")
)

// fixture is one lock of one test.
type fixture struct {
	testing.TB

	server       *redistest.PooledServer
	key, channel string
	clock        int64 // what TIME returns inside scripts; 0 is the server's own time
	isTimed      bool  // keys end by that clock as well
}

// positions counts fixtures, so that no two meet on a key when tests are repeated.
var positions atomic.Int64

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	redistest.NeedServer(tb)
	name := fmt.Sprintf("sb:{%s %d}:", tb.Name(), positions.Add(1))
	return &fixture{TB: tb, server: server, key: name + "lock", channel: name + "unlocked", clock: noon}
}

// run returns the reply of the script, which must not fail.
func (f *fixture) run(script *scripts.Script, args ...any) any {
	f.Helper()
	reply, err := f.try(script, args...)
	require.NoError(f, err)
	return reply
}

// try runs the script on the fixture's key. If the script replies by key, the reply is the one for
// this key.
func (f *fixture) try(script *scripts.Script, args ...any) (any, error) {
	reply, err := f.tryKeys(script, []string{f.key}, args...)
	if err != nil || !strings.Contains(script.Source, "  by key: ") {
		return reply, err
	}
	list, _ := reply.([]any)
	require.Len(f, list, 1)
	return list[0], nil
}

func (f *fixture) tryKeys(script *scripts.Script, keys []string, args ...any) (any, error) {
	text := script.Source
	if f.clock != 0 {
		shim := clocked
		if f.isTimed {
			shim = redistest.Timed
		}
		text, args = shim+text, append(slices.Clip(args), f.time()...)
	}
	return f.eval(text, keys, args...)
}

// eval runs a script, which it sends if the server does not know it by its digest.
func (f *fixture) eval(text string, keys []string, args ...any) (any, error) {
	digest, known := digestsOf.Load(text)
	if !known {
		digest = fmt.Sprintf("%x", sha1.Sum([]byte(text))) //nolint:gosec // what the server calls it by
		digestsOf.Store(text, digest)
	}
	words := []any{"EVALSHA", digest, len(keys)}
	for _, key := range keys {
		words = append(words, key)
	}
	words = append(words, args...)
	reply, err := f.server.Do(words...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT ") {
		words[0], words[1] = "EVAL", text
		reply, err = f.server.Do(words...)
	}
	return reply, err
}

// digestsOf has the digests of the scripts that were sent, by their text.
var digestsOf sync.Map

// clocked goes before a script that reads the clock of a fixture, which is its last two arguments: one text for all times, so that
// the server compiles it once. All other commands of the script go to the server.
const clocked = `local server, us, seconds = redis, table.remove(ARGV), table.remove(ARGV)
local redis = setmetatable({call = function(command, ...)
  if command == 'TIME' then return {seconds, us} end
  return server.call(command, ...)
end}, {__index = server})
`

// time is what TIME returns inside scripts.
func (f *fixture) time() []any { return []any{f.clock / 1_000_000, f.clock % 1_000_000} }

// set gives the key a value and a life.
func (f *fixture) set(value string, life time.Duration) {
	f.Helper()
	f.server.MustDo(f, "SET", f.key, value)
	f.expires(f.key, life)
}

// value returns the value of the key, "" without a key.
func (f *fixture) value() string {
	f.Helper()
	value, _ := f.server.MustDo(f, "GET", f.key).(string)
	if f.isTimed && f.left() <= 0 {
		return ""
	}
	return value
}

// left returns how long the key lives still.
func (f *fixture) left() time.Duration {
	f.Helper()
	return time.Duration(f.ttl(f.key)) * time.Millisecond
}

// untouched returns a function that checks that neither value nor life of the key changed.
func (f *fixture) untouched() func() {
	f.Helper()
	return f.unchangedKeys(func() []string { return []string{f.key} })
}

// unchangedKeys returns a function that checks that these keys are the same, and neither value nor life of any changed.
func (f *fixture) unchangedKeys(keys func() []string) func() {
	f.Helper()
	state := func() (all []any) {
		for _, key := range keys() {
			all = append(all, key, f.server.MustDo(f, "DUMP", key), redistest.EndOf(f, f.server, key))
		}
		return all
	}
	before := state()
	return func() {
		f.Helper()
		require.Equal(f, before, state(), "something was written")
	}
}

// digits is a stamp as it travels.
func digits(stamp int64) string { return fmt.Sprintf("%016d", stamp) }

// session and holdOf return ids of the lengths that the scripts rely on.
func session(letter string) string { return strings.Repeat(letter, 22) }

func holdOf(letter string) string { return session(letter) + "1000000000000000000" }

// label is what the holds here say of their holder, and unmarked what stands in the place of a
// session that waits.
const (
	label    = "höst:42"
	unmarked = "----------------------"
)

// writtenFor is what an acquire of a quorum writes for a hold.
func writtenFor(hold string) string { return hold + unmarked + label }

// votedFor is what the key says while hold has a server's part of a lock that a quorum gives; marked is the session that
// waits, or "".
func votedFor(hold string, stamp int64, marked string) string {
	if marked == "" {
		marked = unmarked
	}
	return "sb1q" + digits(stamp) + hold + marked + label
}

// released is what the key says after a release.
func released(floor int64) string { return "sb1-" + digits(floor) }

// listener hears the messages on a channel of a fixture.
type listener struct {
	fixture  *fixture
	channel  string
	messages chan string
}

// listen returns a listener on the channel of the waiters.
func (f *fixture) listen() *listener {
	f.Helper()
	return f.listenTo(f.channel)
}

// listenTo returns a listener whose subscription is confirmed.
func (f *fixture) listenTo(channel string) *listener {
	f.Helper()
	l := &listener{f, channel, make(chan string, 64)}
	confirmed := make(chan struct{}, 1)
	client, release := f.server.Client(f, func(o *rueidis.ClientOption) { o.DisableCache = true }).Dedicate()
	f.Cleanup(release)
	client.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { l.messages <- m.Message },
		OnSubscription: func(rueidis.PubSubSubscription) { confirmed <- struct{}{} },
	})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(f, client.Do(ctx, client.B().Subscribe().Channel(channel).Build()).Error())
	<-confirmed
	return l
}

// received returns the messages until now: those before one that it publishes itself.
func (l *listener) received() []string {
	l.fixture.Helper()
	const end = "the end of what was heard"
	l.fixture.server.MustDo(l.fixture, "PUBLISH", l.channel, end)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	isListening := []string{}
	for {
		select {
		case message := <-l.messages:
			if message == end {
				return isListening
			}
			isListening = append(isListening, message)
		case <-timer.C:
			require.FailNow(l.fixture, "messages do not arrive")
		}
	}
}

// newFixtureAt is newPlace on a server of its own, which the test may change.
func newFixtureAt(tb testing.TB, options ...redistest.Option) *fixture {
	tb.Helper()
	f := newFixture(tb)
	if len(options) == 0 {
		f.server = serverOfOwn(tb)
		return f
	}
	f.server = redistest.Pool(redistest.Start(tb, options...))
	tb.Cleanup(f.server.Close)
	return f
}

// fill uses up the server's memory, so that it refuses every command that may take more.
func (f *fixture) fill() {
	f.Helper()
	f.server.MustDo(f, "CONFIG", "SET", "maxmemory", "1")
	_, err := f.server.Do("SET", "anything", "x")
	require.ErrorContains(f, err, "OOM")
}

// first returns what a reply begins with, or is.
func first(reply any) any {
	if list, isList := reply.([]any); isList {
		return list[0]
	}
	return reply
}

// foreign is what may stand at a key that is not this kind's, as a command that makes it.
var foreign = map[string][]any{
	"List":         {"RPUSH", "", "x"},
	"Zset":         {"ZADD", "", 1, "x"},
	"Set":          {"SADD", "", "x"},
	"Hash":         {"HSET", "", "f", "x"},
	"Stream":       {"XADD", "", "1-1", "f", "x"},
	"String":       {"SET", "", "hello"},
	"ShortString":  {"SET", "", "sb"},
	"EmptyString":  {"SET", "", ""},
	"Number":       {"SET", "", 42},
	"OtherLayout":  {"SET", "", "sb2q" + digits(noon) + ours},
	"CutShort":     {"SET", "", "sb1q" + digits(noon) + we},
	"Unmarked":     {"SET", "", "sb1q" + digits(noon) + theirs},
	"TooLong":      {"SET", "", votedFor(theirs, noon, they) + strings.Repeat("x", 74-len(label))},
	"FloorAndMore": {"SET", "", released(noon) + "x"},
	"OtherKind":    {"SET", "", "sb1l" + digits(noon) + ours},
	"ReadWrite":    {"ZADD", "", -1, "sb1w", noon, theirs},
	"OtherKindToo": {"SET", "", "sb1w" + digits(noon) + theirs + we, "PX", 60_000},
}

// puts makes what is foreign at a key.
func (f *fixture) puts(what, key string) {
	f.Helper()
	made := foreign[what]
	f.server.MustDo(f, append([]any{made[0], key}, made[2:]...)...)
}

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
	return max(ends-redistest.LaterMS-f.clock/1000, 0)
}

// expires sets the life of a key.
func (f *fixture) expires(key string, life time.Duration) {
	f.Helper()
	if !f.isTimed {
		f.server.MustDo(f, "PEXPIRE", key, life.Milliseconds())
		return
	}
	f.server.MustDo(f, "PEXPIREAT", key, redistest.LaterMS+f.clock/1000+life.Milliseconds())
}

// server is shared by the tests that change nothing but keys of their own.
var server *redistest.PooledServer

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(withPool{m}, func(s *redistest.Server) { server = redistest.Pool(s) }))
}

// pool has the servers that no test uses now, of those that tests may change. It has room for as many as were started: a test
// that waited for room would keep those from running that make it.
var pool struct {
	sync.Mutex
	idle []*redistest.PooledServer
}

// withPool are tests whose servers are closed when all have run.
type withPool struct{ redistest.Tests }

// Run implements redistest.Tests.
func (w withPool) Run() int {
	defer func() {
		server.Close()
		for _, s := range pool.idle {
			s.Close()
			s.Server.Close()
		}
	}()
	return w.Tests.Run()
}

// serverOfOwn returns a server that no other test uses until this one ends. The test may fill its memory and write any key.
func serverOfOwn(tb testing.TB) *redistest.PooledServer {
	tb.Helper()
	redistest.NeedServer(tb)
	s := idleServer()
	if s == nil {
		started, err := redistest.StartServer()
		require.NoError(tb, err)
		s = redistest.Pool(started)
	}
	tb.Cleanup(func() {
		s.MustDo(tb, "CONFIG", "SET", "maxmemory", 0)
		s.MustDo(tb, "FLUSHALL")
		pool.Lock()
		defer pool.Unlock()
		pool.idle = append(pool.idle, s)
	})
	return s
}

// idleServer takes a server from the pool, or returns nil.
func idleServer() *redistest.PooledServer {
	pool.Lock()
	defer pool.Unlock()
	last := len(pool.idle) - 1
	if last < 0 {
		return nil
	}
	s := pool.idle[last]
	pool.idle = pool.idle[:last]
	return s
}
