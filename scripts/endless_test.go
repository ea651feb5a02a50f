// SPDX-License-Identifier: Apache-2.0

package scripts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// P4: a sender without the right to PEXPIRE leaves no key without an end.
func TestDeniedExpiryLeavesNoEndlessKey(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(f *fixture) (*scripts.Script, []string, []any){
		"LockQueues": func(f *fixture) (*scripts.Script, []string, []any) {
			q := queuedOf(f, lockQueue)
			q.has(theirs)
			return q.enter, q.all, q.enterArgs(ours, "1", q.next())
		},
		"LockQueuesMarked": func(f *fixture) (*scripts.Script, []string, []any) {
			q := queuedOf(f, lockQueue)
			q.has(theirs)
			q.queues(holdOf("c"))
			q.leaves(holdOf("c"))
			return q.enter, q.all, q.enterArgs(ours, "1", q.next())
		},
		"LockRequeues": func(f *fixture) (*scripts.Script, []string, []any) {
			q := queuedOf(f, lockQueue)
			q.has(oldTurn)
			q.queues(holdOf("c"))
			q.leaves(holdOf("c"))
			return scripts.LockRequeue, q.all, q.requeueArgs(oldTurn, newTurn, "1")
		},
		"LockLeavesToTheDead": func(f *fixture) (*scripts.Script, []string, []any) {
			q := queuedOf(f, lockQueue)
			q.has(ours)
			q.queues(theirs)
			q.clock += life
			return q.leave, q.all, q.leaveArgs(ours)
		},
		"LockPolls": func(f *fixture) (*scripts.Script, []string, []any) {
			q := queuedOf(f, lockQueue)
			q.has(theirs)
			q.queues(ours)
			return q.poll, q.all, q.pollArgs(we, ours)
		},
		"Heartbeats": func(f *fixture) (*scripts.Script, []string, []any) {
			l := queueFixtureOf(f)
			return scripts.QueueHeartbeat, []string{l.heartbeats}, []any{we, life, l.next(), label}
		},
		"Reads": func(f *fixture) (*scripts.Script, []string, []any) {
			l := rwlockOf(f)
			return scripts.RWLockEnter, l.keys(), l.enterArgs(ours, reads, "0", "")
		},
		"WriterQueues": func(f *fixture) (*scripts.Script, []string, []any) {
			l := rwlockOf(f)
			l.has(theirs, writes)
			return scripts.RWLockEnter, l.keys(), l.enterArgs(ours, writes, "1", l.next())
		},
		"LeavesToTheDead": func(f *fixture) (*scripts.Script, []string, []any) {
			l := rwlockOf(f)
			l.dead(1, writes, noon-second)
			l.server.MustDo(l, "ZADD", l.tickets, digits(noon), ours)
			l.set(released(noon), time.Minute)
			return scripts.RWLockLeave, l.keys(), l.leaveArgs(ours)
		},
		"Permits": func(f *fixture) (*scripts.Script, []string, []any) {
			l := permitsOf(f, 1)
			return scripts.SemaphoreEnter, l.keys(), l.enterArgs(permitRequest(ours, 1), "0", "")
		},
		"PermitsQueue": func(f *fixture) (*scripts.Script, []string, []any) {
			l := permitsOf(f, 1)
			l.has(permitRequest(theirs, 1))
			return scripts.SemaphoreEnter, l.keys(), l.enterArgs(permitRequest(ours, 1), "1", l.next())
		},
		"Resizes": func(f *fixture) (*scripts.Script, []string, []any) {
			l := permitsOf(f, 1)
			return scripts.SemaphoreResize, l.keys(), l.resizeArgs(3)
		},
		"ResizesReleased": func(f *fixture) (*scripts.Script, []string, []any) {
			l := permitsOf(f, 1)
			l.set(released(noon), time.Minute)
			return scripts.SemaphoreResize, l.keys(), l.resizeArgs(3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixtureAt(t)
			script, keys, args := run(f)
			err := f.without("pexpire", script, keys, args)
			if err != nil {
				requireDenied(t, err)
			}
			for _, key := range f.server.Keys("sb:*") {
				require.NotEqual(t, int64(-1), f.server.MustDo(t, "PTTL", key), "%s has no end", key)
			}
		})
	}
}

// P4: a sender without the right to PEXPIRE leaves no hold in a key that others have made.
func TestDeniedExpiryLeavesNoHoldBesideOthers(t *testing.T) {
	t.Parallel()
	other := nth("c", 1)
	for name, run := range map[string]func(t *testing.T, f *fixture){
		"Reads": func(t *testing.T, f *fixture) {
			t.Helper()
			l := rwlockOf(f)
			l.has(theirs, reads)
			requireDenied(t, f.without("pexpire", scripts.RWLockEnter, l.keys(), l.enterArgs(ours, reads, "0", "")))
			l.leaves(theirs)
			require.Equal(t, int64(1), l.tries(other, writes)[0])
		},
		"Permits": func(t *testing.T, f *fixture) {
			t.Helper()
			l := permitsOf(f, 2)
			l.has(permitRequest(theirs, 1))
			requireDenied(t, f.without("pexpire", scripts.SemaphoreEnter, l.keys(), l.enterArgs(permitRequest(ours, 1), "0", "")))
			l.leaves(permitRequest(theirs, 1))
			require.Equal(t, int64(1), l.tries(permitRequest(other, 2))[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, newFixtureAt(t))
		})
	}
}

// P4: a sender without the right to DEL leaves a released key as one that others can take.
func TestDeniedDeleteLeavesTheFloor(t *testing.T) {
	t.Parallel()
	l := newRWLockAt(t)
	l.set(released(noon), time.Minute)
	requireDenied(t, l.without("del", scripts.RWLockEnter, l.keys(), l.enterArgs(ours, writes, "0", "")))
	l.requireLife(time.Minute)
	require.Equal(t, int64(1), l.tries(theirs, writes)[0])
}

// P10: permits are released also by a sender that lost the right to PEXPIRE.
func TestPermitsAreReleasedWithoutExpiry(t *testing.T) {
	t.Parallel()
	for name, held := range map[string][]string{"Last": nil, "BesideOthers": {permitRequest(theirs, 1)}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newPermitsAt(t, 2)
			for _, w := range append(held, permitRequest(ours, 1)) {
				l.has(w)
			}
			require.NoError(t, l.without("pexpire", scripts.SemaphoreLeave, l.keys(), l.leaveArgs(permitRequest(ours, 1))))
		})
	}
}

// P4: permits that have ended stay counted for a sender without the right to ZADD, and come back
// with the next one.
func TestDeniedCountLosesNoPermits(t *testing.T) {
	t.Parallel()
	l := newPermitsAt(t, 1)
	l.has(permitRequest(theirs, 1))
	l.clock += 2 * lease * 1000
	requireDenied(t, l.without("zadd", scripts.SemaphoreEnter, l.keys(), l.enterArgs(permitRequest(ours, 1), "0", "")))
	require.Equal(t, int64(1), l.tries(permitRequest(ours, 1))[0])
}

// P4: permits come back although what follows is refused: their sender may not search the queue, or join it.
func TestRefusedHandOffLosesNoPermits(t *testing.T) {
	t.Parallel()
	t.Run("Leaves", func(t *testing.T) {
		t.Parallel()
		l := newPermitsAt(t, 1)
		l.has(permitRequest(ours, 1))
		l.joins(permitRequest(theirs, 1))
		requireDenied(t, l.without("hget", scripts.SemaphoreLeave, l.keys(), l.leaveArgs(permitRequest(ours, 1))))
		require.Zero(t, l.score("used"))
	})
	t.Run("Joins", func(t *testing.T) {
		t.Parallel()
		l := newPermitsAt(t, 1)
		l.has(permitRequest(theirs, 1))
		l.clock += 2 * lease * 1000
		requireDenied(t, l.without("pexpire", scripts.SemaphoreEnter, l.keys(), l.enterArgs(permitRequest(ours, 1), "1", l.next())))
		require.Zero(t, l.score("used"))
	})
}

// without runs a script as a user that lacks one right, and returns its error.
func (f *fixture) without(right string, script *scripts.Script, keys []string, args []any) error {
	f.Helper()
	_, err := f.as("+@all", "-"+right).tryKeys(script, keys, args...)
	return err
}

// P4, P6: a hold whose key another program gave no end, or one in a month, delays the others for a day at most: no lease
// is longer. The next renewal of a holder that lives gives a key without an end its own end back.
func TestAHoldThatOthersMadeEndlessEndsWithItsLease(t *testing.T) {
	t.Parallel()
	const longest, after = lease * time.Millisecond, 15 * time.Second
	for name, spoil := range map[string]func(f *fixture){
		"Persisted": func(f *fixture) { f.server.MustDo(f, "PERSIST", f.key) },
		"InAMonth":  func(f *fixture) { f.expires(f.key, 30*24*time.Hour) },
	} {
		for by, sees := range map[string]func(q *queued){
			"Try":   func(q *queued) { q.tries(theirs) },
			"Enter": func(q *queued) { q.joins(theirs) },
			"Poll":  func(q *queued) { q.polls("bbbbbbbbbbbbbbbbbbbbbb", theirs) },
			"Requeue": func(q *queued) {
				q.requeues(theirs, nth("b", 2))
			},
		} {
			t.Run(name+"Seen"+by, func(t *testing.T) {
				t.Parallel()
				q := newLock(t)
				q.has(ours)
				q.queues(theirs)
				spoil(q.fixture)
				sees(q)
				require.Equal(t, (longest + after).Milliseconds(), q.ttl(q.key))
				require.Equal(t, []any{int64(1)}, q.alone(scripts.HolderRenew, ours, lease), "the holder has it still")
				q.clock += (longest + after).Microseconds()
				require.Equal(t, int64(1), q.tries(theirs)[0])
			})
		}
		t.Run(name+"InAQuorum", func(t *testing.T) {
			t.Parallel()
			v := newVoter(t)
			v.elect(ours, "")
			spoil(v.fixture)
			require.Equal(t, []any{int64(0), longest.Milliseconds()}, v.elect(theirs, "")[:2])
			require.LessOrEqual(t, v.ttl(v.key), longest.Milliseconds())
			require.Positive(t, v.ttl(v.key))
		})
	}
	t.Run("Renewed", func(t *testing.T) {
		t.Parallel()
		q := newLock(t)
		q.has(ours)
		q.server.MustDo(t, "PERSIST", q.key)
		require.Equal(t, []any{int64(1)}, q.alone(scripts.HolderRenew, ours, lease))
		require.EqualValues(t, lease, q.ttl(q.key))
	})
}
