// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// elected is an election of a test: a lock, and the key of its value.
type elected struct {
	*queued

	leader string
}

func newElection(tb testing.TB) *elected {
	tb.Helper()
	q := newLock(tb)
	return &elected{q, strings.TrimSuffix(q.key, "lock") + "leader"}
}

// puts writes a value by a hold.
func (e *elected) puts(hold string, number int64, text string) any {
	e.Helper()
	return e.mustRun(scripts.ElectionPut, []string{e.key, e.leader}, hold, digits(number), text, 45_000, "PUBLISH", e.channel)[0]
}

// reads returns the hold that wrote the value, and the value.
func (e *elected) reads() []any {
	e.Helper()
	return e.mustRun(scripts.ElectionRead, []string{e.leader})[1:]
}

// clears removes the value of a hold.
func (e *elected) clears(hold string) any {
	e.Helper()
	return e.mustRun(scripts.ElectionClear, []string{e.leader}, hold, "PUBLISH", e.channel)[0]
}

// leads gives the lock to a hold.
func (e *elected) leads(hold, mark string, life time.Duration) {
	e.Helper()
	e.set(lockSays(hold+fairMode, noon, mark), life)
}

// P5: a value that is written again, or late, changes nothing and notifies no listener. A lost one is written again.
func TestTheNewestValueOfATermStays(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	listener := e.listen()
	e.leads(ours, "-", time.Minute)
	require.Equal(t, []any{"", ""}, e.reads())
	require.EqualValues(t, 1, e.puts(ours, 1, "one"))
	require.EqualValues(t, 1, e.puts(ours, 3, ""))
	require.EqualValues(t, 1, e.puts(ours, 10, "ten"))
	for _, late := range []int64{10, 3, 1} {
		e.expires(e.leader, time.Second)
		require.EqualValues(t, 1, e.puts(ours, late, "late"))
		require.Equal(t, []any{ours, "ten"}, e.reads())
		require.EqualValues(t, 45_000, e.ttl(e.leader))
	}
	require.Equal(t, []string{digits(1), digits(3), digits(10)}, listener.received())
	e.server.MustDo(t, "DEL", e.leader)
	require.EqualValues(t, 1, e.puts(ours, 10, "ten"))
	require.Equal(t, []any{ours, "ten"}, e.reads())
}

// P8: only the hold that leads writes the value, and none whose life is over while its key is kept for the queue.
func TestOnlyTheHoldThatLeadsWritesTheValue(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	listener := e.listen()
	e.leads(ours, "-", time.Minute)
	require.EqualValues(t, 1, e.puts(ours, 5, "ours"))
	require.EqualValues(t, 0, e.puts(theirs, 6, "theirs"))
	for name, lose := range map[string]func(){
		"Gone":     func() { e.server.MustDo(t, "DEL", e.key) },
		"Free":     func() { e.set("sb1-"+digits(noon), time.Minute) },
		"Idle":     func() { e.set(idleSays(noon), time.Minute) },
		"Next":     func() { e.leads(theirs, "-", time.Minute) },
		"Outlived": func() { e.leads(ours, "q", 15*time.Second) },
		"Foreign":  func() { e.set("foreign", time.Minute) },
		"Redlock":  func() { e.set(votedFor(ours, noon, ""), time.Minute) },
		"Set": func() {
			e.server.MustDo(t, "DEL", e.key)
			e.server.MustDo(t, "ZADD", e.key, 0, "sb1w")
		},
	} {
		lose()
		require.EqualValues(t, 0, e.puts(ours, 9, "late"), name)
		require.Equal(t, []any{ours, "ours"}, e.reads(), name)
		e.server.MustDo(t, "DEL", e.key)
	}
	require.Len(t, listener.received(), 1)
	e.leads(ours, "q", time.Minute)
	require.EqualValues(t, 1, e.puts(ours, 9, "marked"))
	e.leads(theirs, "-", time.Minute)
	require.EqualValues(t, 1, e.puts(theirs, 1, "theirs"), "whatever number the term before came to")
	require.Equal(t, []any{theirs, "theirs"}, e.reads())
}

// P8: a term that is over removes its own value, and notifies observers in any case.
func TestATermRemovesItsOwnValueOnly(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	listener := e.listen()
	e.leads(ours, "-", time.Minute)
	require.EqualValues(t, 1, e.puts(ours, 1, "x"))
	require.EqualValues(t, 0, e.clears(theirs))
	require.Equal(t, []any{ours, "x"}, e.reads())
	require.EqualValues(t, 1, e.clears(ours))
	require.EqualValues(t, 0, e.clears(ours))
	require.Equal(t, []any{"", ""}, e.reads())
	require.Equal(t, []string{digits(1), "", "", ""}, listener.received())
}

// P9: a key of another program is left alone.
func TestAForeignValueIsLeftAlone(t *testing.T) {
	t.Parallel()
	e := newElection(t)
	e.leads(ours, "-", time.Minute)
	for _, foreign := range [][]any{{"SET", e.leader, "foreign"}, {"SET", e.leader, "sb1e" + ours}, {"SADD", e.leader, "foreign"}} {
		e.server.MustDo(t, "DEL", e.leader)
		e.server.MustDo(t, foreign...)
		was := e.server.MustDo(t, "DUMP", e.leader)
		require.EqualValues(t, -2, e.puts(ours, 1, "x"))
		require.EqualValues(t, 0, e.clears(ours))
		require.EqualValues(t, -2, e.mustRun(scripts.ElectionRead, []string{e.leader})[0])
		require.Equal(t, was, e.server.MustDo(t, "DUMP", e.leader))
	}
}
