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
func (p *fixture) end(key string, returned any) any {
	p.Helper()
	ends := redistest.EndOf(p, p.server, key)
	if early, _ := returned.(int64); early == ends-1 {
		return early
	}
	return ends
}

func (p *fixture) describe() []any {
	p.Helper()
	return p.run(scripts.HolderDescribe).([]any)
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
			p := newFixture(t)
			p.clock = 0 // an older server adds what is left to its time
			p.set(c.value, time.Hour)
			unchanged := p.untouched()
			reply := p.describe()
			unchanged()
			require.Equal(t, []any{int64(1), c.kind, digits(noon), ours, c.label, p.end(p.key, reply[5])}, reply)
		})
	}
}

func TestAHolderWhoseKeyHasNoEndIsDescribed(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.server.MustDo(t, "SET", p.key, votedFor(ours, noon, ""))
	require.Equal(t, int64(-1), p.describe()[5])
}

func TestDescribeOfAFreeLockReturnsNoHolder(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	require.Equal(t, []any{int64(0)}, p.describe())
	p.set(released(noon), time.Hour)
	require.Equal(t, []any{int64(0)}, p.describe())
}

func TestAKeyThatIsNoLocksIsNotDescribed(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"Foreign": "hello", "Empty": "", "OtherLayout": "sb2q" + votedFor(ours, noon, "")[4:], "ReleasedAndMore": "sb1-" + votedFor(ours, noon, "")[4:],
		"CutShort": "sb1q" + digits(noon) + ours, "TooLong": "sb1q" + digits(noon) + ours + unmarked + strings.Repeat("x", 65),
		"Long": strings.Repeat("x", 100), "ReleasedCutShort": released(noon)[:19],
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newFixture(t)
			p.set(value, time.Hour)
			require.Equal(t, []any{int64(-2), "?"}, p.describe())
		})
	}
}

// P9: of several readers the one whose hold ends last is returned: the lock is free after that.
func TestTheHolderOfAReadWriteLockIsDescribed(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(ours, mode)
			if mode == reads {
				p.clock++
				p.has(theirs, reads)
				p.renews(ours, 2*lease)
			}
			unchanged := p.unchanged()
			ends := (p.clock + map[string]int64{reads: 2, writes: 1}[mode]*lease*1000) / 1000
			require.Equal(t, []any{int64(1), "w", digits(p.floor()), ours, label, ends}, p.describe())
			unchanged()
		})
	}
}

func TestALabelOfAReaderMayBeMissing(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	args := p.enterArgs(ours, reads, "0", "")
	args[6] = ""
	p.ask(scripts.RWLockEnter, p.keys(), args...)
	require.Equal(t, []any{ours, ""}, p.describe()[3:5])
}

func TestDescribeReturnsNoHolderIfAllHoldsHaveEnded(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, reads)
	p.has(theirs, reads)
	p.queues(holdOf("w"), writes)
	p.clock += lease * 1000
	unchanged := p.unchanged()
	require.Equal(t, []any{int64(0)}, p.describe())
	unchanged()
	p.clock--
	require.Equal(t, int64(1), p.describe()[0])
}

func TestASortedSetThatIsNoLocksIsNotDescribed(t *testing.T) {
	t.Parallel()
	p := newFixture(t)
	p.server.MustDo(t, "ZADD", p.key, noon, ours+label, 1, "phase")
	require.Equal(t, []any{int64(-2), "?"}, p.describe())
}

// A right that is missing says nothing of the key.
func TestADeniedDescriptionIsAnError(t *testing.T) {
	t.Parallel()
	p := newFixtureAt(t)
	_, err := p.as("+time").try(scripts.HolderDescribe)
	requireDenied(t, err)
}
