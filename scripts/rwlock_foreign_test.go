// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// rwlockCalls are all that is asked of a read-write lock.
func rwlockCalls(p *rwlock) map[string]func() (any, error) {
	call := func(script *scripts.Script, keys []string, args ...any) func() (any, error) {
		return func() (any, error) { return p.tryKeys(script, keys, args...) }
	}
	return map[string]func() (any, error){
		"TryReads":   call(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, "0", "")...),
		"TryWrites":  call(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, writes, "0", "")...),
		"JoinReads":  call(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, reads, "1", p.next())...),
		"JoinWrites": call(scripts.RWLockEnter, p.keys(), p.enterArgs(ours, writes, "1", p.next())...),
		"Leave":      call(scripts.RWLockLeave, p.keys(), p.leaveArgs(ours)...),
		"Look":       call(scripts.RWLockLook, p.keys(), p.lookArgs(we, ours)...),
		"LookAround": call(scripts.RWLockLook, p.keys(), p.lookArgs(we)...),
		"Force":      call(scripts.RWLockForce, p.keys(), p.forceArgs(ours, theirs)...),
		"Downgrade":  call(scripts.RWLockDowngrade, p.keys(), p.leaveArgs(ours)...),
		"Door":       call(scripts.RWLockDoor, p.keys(), ours+label),
	}
}

// P9: a key that is none of ours, or another kind's, is left as it is, and so are the others.
func TestAReadWriteLockLeavesAForeignHolderKeyAlone(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{
		"ReadWrite": "own", "Zset": "?",
		"CutShort": "r", "Unmarked": "r", "TooLong": "r", // those of other kinds are none of ours to judge
	}
	requireHolderLeftAlone(t, newRWLock, rwlockCalls, kinds, func(t *testing.T, verb, kind string, reply any) {
		t.Helper()
		switch verb {
		case "TryReads", "TryWrites", "JoinReads", "JoinWrites", "Look", "LookAround":
			require.Equal(t, []any{int64(-2), kind}, reply)
		default:
			require.Equal(t, int64(0), first(reply))
		}
	})
}

// P4: where another kind has taken the key nobody's ticket stays behind.
func TestATicketIsTakenBackWhereAnotherKindHasTheKey(t *testing.T) {
	t.Parallel()
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(theirs, writes)
			p.queues(ours, mode)
			p.set(fairHeld(theirs, noon, noon+hour), time.Minute)
			unchanged := p.untouched()
			require.Equal(t, []any{int64(2), digits(noon), "", int64(0)}, p.leaves(ours))
			require.Equal(t, []any{int64(0), digits(noon)}, p.leaves(ours))
			unchanged()
			require.Empty(t, p.inLines())
		})
	}
}

// P9, P10: types are looked at before the first write.
func TestAReadWriteLockLeavesForeignKeysOfItsLinesAlone(t *testing.T) {
	t.Parallel()
	states := map[string]func(p *rwlock){
		"Free":      func(*rwlock) {},
		"Released":  func(p *rwlock) { p.set(released(noon), time.Minute) },
		"Held":      func(p *rwlock) { p.has(theirs, writes) },
		"Shared":    func(p *rwlock) { p.has(theirs, reads); p.has(ours, reads) },
		"Ours":      func(p *rwlock) { p.has(ours, writes) },
		"Ended":     func(p *rwlock) { p.has(theirs, writes); p.drops(theirs) },
		"Line":      func(p *rwlock) { p.has(theirs, reads); p.queues(holdOf("c"), writes); p.queues(holdOf("d"), reads) },
		"OursLine":  func(p *rwlock) { p.has(ours, writes); p.dead(2, writes, noon-second); p.dead(2, reads, noon-second) },
		"EndedLine": func(p *rwlock) { p.has(theirs, writes); p.dead(2, reads, noon-hour); p.drops(theirs) },
	}
	requireLineLeftAlone(t, newRWLock, rwlockCalls, states, 100)
}

// P9: kinds that share a name keep each other out, while the lock is held and while somebody queues.
func TestKindsOfLocksKeepAReadWriteLockOutAndAreKeptOut(t *testing.T) {
	t.Parallel()
	acquire := func(p *rwlock) (any, error) {
		return p.try(scripts.ReentrantAcquire, claimOf(theirs), lease, digits(p.clock), they)
	}
	enter := func(p *rwlock) (any, error) {
		return p.tryKeys(scripts.FairEnter, p.line.keys(), p.line.enterArgs(theirs, "1", p.next())...)
	}
	for name, prepare := range map[string]func(p *rwlock){
		"Read":    func(p *rwlock) { p.has(ours, reads) },
		"Written": func(p *rwlock) { p.has(ours, writes) },
		"QueuedFor": func(p *rwlock) {
			p.has(holdOf("z"), writes)
			p.queues(ours, reads)
			p.clock += life
			p.leaves(holdOf("z"))
		},
		"Dropped": func(p *rwlock) { p.has(holdOf("z"), writes); p.queues(ours, reads); p.drops(holdOf("z")) },
		"Granted": func(p *rwlock) { p.has(holdOf("z"), writes); p.queues(ours, reads); p.leaves(holdOf("z")) },
	} {
		for verb, takes := range map[string]func(p *rwlock) (any, error){"Reentrant": acquire, "Fair": enter} {
			t.Run(name+verb, func(t *testing.T) {
				t.Parallel()
				p := newRWLock(t)
				prepare(p)
				unchanged := p.unchanged()
				reply, err := takes(p)
				unchanged()
				require.NoError(t, err)
				require.Equal(t, []any{int64(-2), "w"}, reply)
			})
		}
	}
}

// P9.
func TestTheNextKindOfLockTakesWhatAReadWriteLockLeft(t *testing.T) {
	t.Parallel()
	p := newRWLock(t)
	p.has(ours, writes)
	p.leaves(ours)
	reply, err := p.try(scripts.ReentrantAcquire, claimOf(theirs), lease, digits(p.clock), they)
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), digits(noon + 1), block, digits(noon)}, reply)
	require.Equal(t, []any{int64(-2), "r"}, p.tries(ours, reads))
	require.Equal(t, []any{int64(-2), "r"}, p.looks(we, ours))
	p.release(theirs, noon+1)
	p.has(ours, reads)
}

// P8: what a hold of another kind still sends, once a read-write lock has the key, finds nothing of its own.
func TestWhatOtherKindsSendLeavesAReadWriteLockAlone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		args   func(p *rwlock) []any
	}{
		"Release": {scripts.ReentrantRelease, func(p *rwlock) []any {
			return []any{heldBy(ours, noon, ""), digits(noon), "PUBLISH", p.channel, keepMS}
		}},
		"Withdraw": {scripts.ReentrantWithdraw, func(p *rwlock) []any { return []any{ours, "PUBLISH", p.channel, keepMS} }},
		"Yield":    {scripts.ReentrantYield, func(p *rwlock) []any { return []any{ours, lease, digits(noon), "PUBLISH", p.channel, keepMS} }},
		"Look":     {scripts.ReentrantLook, func(*rwlock) []any { return []any{we} }},
		"Renew":    {scripts.HolderRenew, func(*rwlock) []any { return []any{ours, lease} }},
		"Force":    {scripts.HolderForce, func(p *rwlock) []any { return []any{ours, "PUBLISH", p.channel, p.told(), keepMS} }},
		"FairDrop": {scripts.FairDrop, func(*rwlock) []any { return []any{ours} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newRWLock(t)
			p.has(ours, writes)
			unchanged := p.unchanged()
			if _, err := p.try(c.script, c.args(p)...); err != nil {
				require.ErrorContains(t, err, "WRONGTYPE")
			}
			unchanged()
		})
	}
}
