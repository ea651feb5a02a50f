// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// end returns when a key ends, or what a script returned if that is a millisecond earlier: see part key/ends.
func (f *fixture) end(key string, returned any) any {
	f.Helper()
	ends := redistest.EndOf(f, f.server, key)
	if early, _ := returned.(int64); early == ends-1 {
		return early
	}
	return ends
}

func (f *fixture) describe() []any {
	f.Helper()
	return f.run(scripts.HolderDescribe).([]any)
}

func TestAHolderOfAnyKindIsDescribed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ value, kind, label string }{
		"Unmarked":     {votedFor(ours, noon, ""), "q", label},
		"Marked":       {votedFor(ours, noon, they), "q", label},
		"WithoutLabel": {"sb1q" + digits(noon) + ours + unmarked, "q", ""},
		"LongestLabel": {"sb1q" + digits(noon) + ours + unmarked + strings.Repeat("x", 64), "q", strings.Repeat("x", 64)},
		"AnotherKind":  {"sb1x" + digits(noon) + ours + they + label, "x", label},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.clock = 0 // an older server adds what is left to its time
			f.set(c.value, time.Hour)
			unchanged := f.untouched()
			reply := f.describe()
			unchanged()
			require.Equal(t, []any{int64(1), c.kind, digits(noon), ours, c.label, f.end(f.key, reply[5])}, reply)
		})
	}
}

func TestAHolderWhoseKeyHasNoEndIsDescribed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.MustDo(t, "SET", f.key, votedFor(ours, noon, ""))
	require.Equal(t, int64(-1), f.describe()[5])
}

func TestDescribeOfAFreeLockReturnsNoHolder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Equal(t, []any{int64(0)}, f.describe())
	f.set(released(noon), time.Hour)
	require.Equal(t, []any{int64(0)}, f.describe())
}

func TestAKeyThatIsNoLocksIsNotDescribed(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Foreign": "hello", "Empty": "", "OtherLayout": "sb2q" + votedFor(ours, noon, "")[4:], "ReleasedAndMore": "sb1-" + votedFor(ours, noon, "")[4:],
		"CutShort": "sb1q" + digits(noon) + ours, "TooLong": "sb1q" + digits(noon) + ours + unmarked + strings.Repeat("x", 74),
		"Long": strings.Repeat("x", 100), "ReleasedCutShort": released(noon)[:19],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.set(value, time.Hour)
			require.Equal(t, []any{int64(-2), "?"}, f.describe())
		})
	}
}

// P9: of several readers the one whose hold ends last is returned: the lock is free after that.
func TestTheHolderOfAReadWriteLockIsDescribed(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRWLock(t)
			r.has(ours, mode)
			if mode == reads {
				r.clock++
				r.has(theirs, reads)
				r.renews(ours, 2*lease)
			}
			unchanged := r.unchanged()
			ends := (r.clock + map[string]int64{reads: 2, writes: 1}[mode]*lease*1000) / 1000
			require.Equal(t, []any{int64(1), "w", digits(r.floor()), ours, label, ends}, r.describe())
			unchanged()
		})
	}
}

func TestALabelOfAReaderMayBeMissing(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	args := r.enterArgs(ours, reads, "0", "")
	args[6] = ""
	r.mustRun(scripts.RWLockEnter, r.keys(), args...)
	require.Equal(t, []any{ours, ""}, r.describe()[3:5])
}

func TestDescribeReturnsNoHolderIfAllHoldsHaveEnded(t *testing.T) {
	t.Parallel()
	r := newRWLock(t)
	r.has(ours, reads)
	r.has(theirs, reads)
	r.queues(holdOf("w"), writes)
	r.clock += lease * 1000
	unchanged := r.unchanged()
	require.Equal(t, []any{int64(0)}, r.describe())
	unchanged()
	r.clock--
	require.Equal(t, int64(1), r.describe()[0])
}

func TestASortedSetThatIsNoLocksIsNotDescribed(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.server.MustDo(t, "ZADD", f.key, noon, ours+label, 1, "phase")
	require.Equal(t, []any{int64(-2), "?"}, f.describe())
}

// A right that is missing says nothing of the key.
func TestADeniedDescriptionIsAnError(t *testing.T) {
	t.Parallel()
	f := newFixtureAt(t)
	_, err := f.as("+time").try(scripts.HolderDescribe)
	requireDenied(t, err)
}
