// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// fairCalls are all that is asked of a fair lock.
func fairCalls(p *line) map[string]func() (any, error) {
	call := func(script *scripts.Script, keys []string, args ...any) func() (any, error) {
		return func() (any, error) { return p.tryKeys(script, keys, args...) }
	}
	return map[string]func() (any, error){
		"Try":     call(scripts.FairEnter, p.keys(), p.enterArgs(ours, "0", "")...),
		"Join":    call(scripts.FairEnter, p.keys(), p.enterArgs(ours, "1", p.next())...),
		"Leave":   call(scripts.FairLeave, p.keys(), p.leaveArgs(ours)...),
		"Look":    call(scripts.FairLook, p.keys(), p.lookArgs(we, ours)...),
		"Drop":    call(scripts.FairDrop, p.keys()[:1], ours),
		"Renew":   call(scripts.HolderRenew, p.keys()[:1], holdOf("z"), lease),
		"Waiters": call(scripts.FairWaiters, p.keys()[1:], "0", 10),
	}
}

// P9: a key that is none of ours, or another kind's, is left as it is, and so are the others.
func TestAFairLockLeavesAForeignHolderKeyAlone(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"OtherKind": "?", "OtherKindToo": "w", // cut short for a fair one; another kind, whatever its rest
		"CutShort": "r", "Unmarked": "r", "TooLong": "r", // those of a reentrant lock are none of ours to judge
	}
	requireHolderLeftAlone(t, newLine, fairCalls, kinds, func(t *testing.T, verb, kind string, reply any) {
		t.Helper()
		if verb == "Try" || verb == "Join" || verb == "Look" {
			require.Equal(t, []any{int64(-2), kind}, reply)
		}
	})
	p := newLine(t)
	p.set(fairHeld(theirs, noon, noon+hour)+strings.Repeat("x", 65-len(label)), time.Minute)
	unchanged := p.unchanged()
	require.Equal(t, []any{int64(-2), "?"}, p.tries(ours), "too long")
	unchanged()
}

// P9, P10: types are looked at before the first write.
func TestAFairLockLeavesForeignKeysOfItsLineAlone(t *testing.T) {
	t.Parallel()
	states := map[string]func(p *line){
		"Free":  func(*line) {},
		"Held":  func(p *line) { p.holds(theirs) },
		"Ours":  func(p *line) { p.holds(ours) },
		"Ended": func(p *line) { p.set(fairHeld(theirs, noon-hour, noon), time.Minute) },
		"Line":  func(p *line) { p.holds(theirs); p.joins(holdOf("c")) },
		"EndedLine": func(p *line) {
			p.set(fairHeld(theirs, noon-hour, noon), time.Minute)
			p.dead(2, noon-second)
		},
		"OursLine": func(p *line) { p.holds(ours); p.dead(2, noon-second) },
	}
	requireLineLeftAlone(t, newLine, fairCalls, states, 50)
}

// P9: kinds that share a name keep each other out, while the lock is held and while somebody queues.
func TestOtherKindsAreKeptOutWhileAFairLockIsHeldOrQueuedFor(t *testing.T) {
	t.Parallel()
	acquire := func(p *line) any {
		return p.run(scripts.ReentrantAcquire, claimOf(theirs), lease, digits(p.clock), they)
	}
	for name, prepare := range map[string]func(p *line){
		"Held": func(p *line) { p.tries(ours) },
		"EndedAndQueued": func(p *line) {
			p.set(fairHeld(holdOf("z"), noon-hour, noon-1), keeps)
			p.server.MustDo(p, "ZADD", p.tickets, 1, ours)
		},
		"Dropped": func(p *line) { p.tries(holdOf("z")); p.joins(ours); p.drops(holdOf("z")) },
		"Granted": func(p *line) { p.tries(holdOf("z")); p.joins(ours); p.leaves(holdOf("z")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newLine(t)
			prepare(p)
			unchanged := p.unchanged()
			require.Equal(t, []any{int64(-2), "f"}, acquire(p))
			unchanged()
		})
	}
	p := newLine(t)
	p.tries(ours)
	p.leaves(ours)
	require.Equal(t, []any{int64(1), digits(noon + 1), block, digits(noon)}, acquire(p), "and not after it")
	require.Equal(t, []any{int64(-2), "r"}, p.tries(ours))
	require.Equal(t, []any{int64(-2), "r"}, p.looks(we, ours))
	p.release(theirs, noon+1)
}
