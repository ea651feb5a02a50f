// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// costRow is what a script promises of its work beside a crowd of n: no more than base and each for
// every one of the crowd, of which a call does no more than most at once. A work that is constant
// has no each.
type costRow struct {
	script           *scripts.Script
	crowd            string
	base, each, most int
	sizes            []int // 10, 1,000 and 8,000 if empty, and in the long form 100,000
	fill             func(m *measured, n int)
	keys             func(m *measured, n int) []string
	args             func(m *measured, n int) []any
}

// on returns the keys of a row.
func on(ends ...string) func(m *measured, n int) []string {
	return func(m *measured, _ int) []string { return m.at(ends...) }
}

// with returns the arguments of a row.
func with(args ...any) func(m *measured, n int) []any {
	return func(*measured, int) []any { return args }
}

// many returns one key for all n of a call: a batch.
func many(end string) func(m *measured, n int) []string {
	return func(m *measured, n int) []string {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = m.name + end
		}
		return keys
	}
}

// each returns the arguments of a batch: the same for each of n.
func each(args ...any) func(m *measured, n int) []any {
	return func(_ *measured, n int) (all []any) {
		for range n {
			all = append(all, args...)
		}
		return all
	}
}

// batches are the sizes of batches.
func batches() []int { return []int{1, 10, 1000} }

// Each script has rows, and its work grows by no more than its header says under "cost".
func TestNoScriptCostsMoreThanItSays(t *testing.T) {
	t.Parallel()
	rows := costRows()
	all, err := scripts.All()
	require.NoError(t, err)
	for _, s := range all {
		require.Condition(t, func() bool {
			for _, row := range rows {
				if row.script.SHA1 == s.SHA1 {
					return true
				}
			}
			return false
		}, "%s v%d has no row in costRows", s.Name, s.Version)
	}
	for _, row := range rows {
		t.Run(row.script.Name+"/"+row.crowd, func(t *testing.T) {
			t.Parallel()
			sizes := row.sizes
			if sizes == nil {
				sizes = []int{10, 1000, 8000} // the last is more than any bound
			}
			for _, n := range sizes {
				row.requireHolds(t, n)
			}
		})
	}
}

// The same beside 100,000, for as many rows as there is time for.
func TestSoakScriptsCostNoMoreBesideLargeCrowds(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SIGNALBOX_SOAK"))
	if err != nil {
		t.Skip("a long test: set SIGNALBOX_SOAK to a time, such as 10m")
	}
	t.Parallel()
	rows, ends := costRows(), time.Now().Add(length)
	for _, i := range rand.Perm(len(rows)) { //nolint:paralleltest // one crowd at a time
		if row := rows[i]; row.sizes == nil && time.Now().Before(ends) {
			t.Run(row.script.Name+"/"+row.crowd, func(t *testing.T) { row.requireHolds(t, 100_000) })
		}
	}
}

// requireHolds runs the script beside a crowd of n.
func (c costRow) requireHolds(t *testing.T, n int) {
	t.Helper()
	m := newMeasured(t)
	if c.fill != nil {
		c.fill(m, n)
	}
	work := m.work(c.script, c.keys(m, n), c.args(m, n)...)
	if c.each > 0 && redistest.IsOld(t) {
		c.each += 2 // PTTL and its key: see part key/lengthen
	}
	most := c.base + c.each*n
	if c.most > 0 {
		most = min(most, c.base+c.each*c.most)
	}
	t.Logf("%d of %d for %d", work, most, n)
	require.LessOrEqual(t, work, most, "beside %d", n)
	for _, key := range c.keys(m, 1) {
		m.server.MustDo(t, "UNLINK", key)
	}
}

// meter goes around a script and counts its work: each command, each argument, each element of a
// reply, and what a command skips (LIMIT, LRANGE) or searches (LPOS, LREM). The reply is how much
// that was. TIME is the first argument.
const meter = `
local server, clock, work = redis, table.remove(ARGV), 0
local function run(how, command, ...)
  local args = {...}
  work = work + 1 + #args
  for n, arg in ipairs(args) do
    work = work + (arg == 'LIMIT' and tonumber(args[n + 1]) or 0)
  end
  if command == 'TIME' then
    return {string.sub(clock, 1, 10), string.format('%.0f', tonumber(string.sub(clock, 11)))}
  elseif command == 'LPOS' or command == 'LREM' then
    work = work + server.call('LLEN', args[1])
  elseif command == 'LRANGE' then
    work = work + math.max(tonumber(args[2]), 0)
  end
  local reply = server[how](command, ...)
  if type(reply) == 'table' then
    work = work + #reply
  end
  return reply
end
local redis = setmetatable({
  call = function(...) return run('call', ...) end, pcall = function(...) return run('pcall', ...) end,
}, {__index = server})
local function script()
`

const meterEnd = `
end
local reply = script()
if type(reply) == 'table' and reply['err'] then
  return reply
end
return work
`

// measured is a fixture whose keys are filled by the thousand.
type measured struct {
	*fixture

	name string
}

func newMeasured(tb testing.TB) *measured {
	tb.Helper()
	f := newFixture(tb)
	return &measured{f, strings.TrimSuffix(f.key, "lock")}
}

// at returns keys of the fixture by their ends.
func (m *measured) at(ends ...string) []string {
	keys := make([]string, len(ends))
	for i, end := range ends {
		keys[i] = m.name + end
	}
	return keys
}

// work returns how much a script has to do.
func (m *measured) work(script *scripts.Script, keys []string, args ...any) int {
	m.Helper()
	reply, err := m.eval(meter+script.Source+meterEnd, keys, append(slices.Clip(args), digits(m.clock))...)
	require.NoError(m, err)
	work, _ := reply.(int64)
	require.Positive(m, work)
	return int(work)
}

// crowd writes n members or fields to a key in one go. Of names and values %d is the number of the
// member. A crowd that was made before is copied.
func (m *measured) crowd(n int, command, end, name, value string) {
	m.Helper()
	made := fmt.Sprintf("crowd:%d:%s:%s:%s", n, command, name, value)
	//nolint:dupword // blocks of Lua end one behind the other
	m.server.MustDo(m, "EVAL", `local command, n, name, value = ARGV[1], tonumber(ARGV[2]), ARGV[3], ARGV[4]
local words = {}
for i = 1, redis.call('EXISTS', KEYS[1]) == 1 and 0 or n do
  local id = string.format('%018d', i)
  local member = string.gsub(name, '%%d', id)
  if command == 'ZADD' then
    words[#words + 1], words[#words + 2] = string.format('%.0f', value + i), member
  else
    words[#words + 1] = member
    if command == 'HSET' then
      words[#words + 1] = value
    end
  end
  if #words >= 4000 or i == n then
    redis.call(command, KEYS[1], unpack(words))
    words = {}
  end
end
redis.call('PEXPIRE', KEYS[1], 600000)
redis.call('COPY', KEYS[1], KEYS[2])
redis.call('PEXPIRE', KEYS[2], 600000)`, 2, made, m.name+end, command, n, name, value)
}

// Holds of a crowd have the number of their session.
const manySession, manyHolds = "many%d", "many%d0%d"

// queue writes n tickets, whose sessions live until then.
func (m *measured) queue(n int, queue, heartbeats, suffix string, until int64) {
	m.Helper()
	m.queueOf(n, queue, heartbeats, suffix, heartbeatField(until, 1))
}

// queueOf writes n tickets, and what heartbeats says of their sessions.
func (m *measured) queueOf(n int, queue, heartbeats, suffix, said string) {
	m.Helper()
	m.crowd(n, "ZADD", queue, manyHolds+suffix, fmt.Sprint(noon-hour))
	m.crowd(n, "HSET", heartbeats, manySession, said)
}

// heldBy writes n holds until then, of a key that has several, and its other members.
func (m *measured) heldBy(n int, end, suffix string, until int64, more ...any) {
	m.Helper()
	m.crowd(n, "ZADD", end, manyHolds+suffix+label, fmt.Sprint(until-int64(n)))
	m.server.MustDo(m, append([]any{"ZADD", m.name + end, -noon + hour}, more...)...)
}

// The times at which crowds end: they live, they died lately, or so long ago that their positions are
// lost.
const (
	alive = noon + 20*second
	died  = noon - 5*second
	gone  = noon - 20*second
)

// crowds are what heartbeats says of each session of a crowd that waits: those of unsubscribed ones have lost their listeners.
func crowds() map[string]string {
	return map[string]string{
		"Alive": heartbeatField(alive, 1), "Dead": heartbeatField(died, 1), "Gone": heartbeatField(gone, 1),
		"Unsubscribed": strings.Replace(heartbeatField(alive, 1), "-"+label, "+"+label, 1),
	}
}

// Holds as Redisson writes them: a client, and a thread.
const (
	gos   = "00010203-0405-0607-0809-0a0b0c0d0e0f:1000000000000000001"
	javas = "f0f1f2f3-f4f5-f6f7-f8f9-fafbfcfdfeff:77" // Java's own threads have smaller numbers
)

// goes returns the hold of the n-th session of this library.
func goes(n int) string {
	return fmt.Sprintf("00010203-0405-0607-0809-0a0b0c0d0e0f:%d", int64(1_000_000_000_000_000_000)+int64(n))
}

// has gives the lock to a hold, as the Java client would.
func (f *fixture) has(hold, entries string, life time.Duration) {
	f.Helper()
	f.server.MustDo(f, "HSET", f.key, hold, entries)
	f.server.MustDo(f, "PEXPIRE", f.key, life.Milliseconds())
}

// wait is what a position in Redisson's queue is good for, in ms, and at what time the queues here begin.
const wait, noonMS = int64(300_000), noon / 1000

// The rounds of a latch, and for how long it is kept.
const (
	nonceA, nonceB = "AAAAAAAAAAA", "BBBBBBBBBBB"
	kept           = "0003600000" // an hour
)

// latchSays is what the key says of its newest round.
func latchSays(stamp int64, state, nonce string, since int64, total int) string {
	return "sb1" + digits(stamp) + state + nonce + digits(since) + fmt.Sprintf("%08d", total) + kept
}

// outcomeOf is what the key says of an outcome.
func outcomeOf(stamp int64, value string) string { return "sb1o" + digits(stamp) + value }

// permitsHold is a hold of n permits.
func permitsHold(name string, n int) string { return fmt.Sprintf("%-12s%010d", name, n) }

// permitID is the i-th of a hold, counted from 1.
func permitID(name string, i int) string {
	return fmt.Sprintf("%-12s", name) + string([]byte{0, 0, byte(i >> 8), byte(i)})
}

const (
	second, hour = 1_000_000, 3600 * second // in the unit of stamps
	life         = 3 * second               // what a heartbeat gives
)

// The modes of tickets: a turn of a session, one whose hold may be idle, and a fair request. Then the sides of a read-write lock.
const (
	turnMode, idleMode, fairMode = "r", "k", "f"
	reads, writes                = "r", "w"
)

// lockSays is what the holder key says while hold has the lock.
func lockSays(ticket string, stamp int64, mark string) string {
	return "sb1l" + digits(stamp) + ticket + mark + label
}

// idleSays is what it says while the lock is free, and a queue may exist.
func idleSays(floor int64) string { return "sb1l" + digits(floor) + strings.Repeat("-", 42) + "q" }

// waiting is what an enter needs only if the lock is not free.
func waiting(queues, number, grants string) string {
	return fmt.Sprint(queues, " ", life, " ", number, " ", keepMS, " PUBLISH ", grants)
}

// nth is the n-th hold of a session, and manyHold that of a session of a crowd.
func nth(letter string, n int) string { return session(letter) + fmt.Sprintf("%019d", n) }

func manyHold(n int) string { return fmt.Sprintf("many%018d%019d", n, n) }

// attempt is what a message says of a hold.
func attempt(hold string) string { return hold[22:] }

// heartbeatNumber is that of the n-th heartbeat.
func heartbeatNumber(n int) string { return fmt.Sprintf("%012drandom-%d", n, n%10) }

// heartbeatField is what heartbeats says of a session that counts as alive until then, by the n-th heartbeat, and that does not listen.
func heartbeatField(until int64, n int) string {
	return digits(until) + heartbeatNumber(n) + "-" + label
}
