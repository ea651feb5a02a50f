// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// granted returns when the server granted a lease, by its own clock.
func granted(lease signalbox.Lease) time.Time {
	return time.UnixMicro(int64(wire.StampOf(lease.Token())))
}

// P6: waiters that are killed, however many, delay the next one alive by one life together, not by one life each.
// TestDeadWaitersDelayOthersByOneLife shows the bound in virtual time.
func TestKilledWaitersDelayTheNextByOneLifeTogether(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "processes are killed that count as alive for three seconds")
	newFixture(t).killWaiters(t, 20)
}

// killWaiters queues k sessions before one that stays alive, kills them, and releases the lock.
func (f *fixture) killWaiters(t *testing.T, k int) {
	t.Helper()
	const name = "killed"
	held := f.hold(t, name)
	var doomed []*redistest.Process
	for left := k; left > 0; {
		n := min(left, max(k/4, 1))
		doomed = append(doomed, f.start(t, "queue", workOrder{name: name, sessions: n, users: 1}))
		left -= n
	}
	f.waiting(t, name, k)
	got := f.queueFor(t, f.waiter, name, k+1)
	for _, p := range doomed {
		p.Kill()
	}
	released := f.view.Now(t)
	require.NoError(t, held.Unlock())
	lease := locktest.MustHave(t, got)
	took := granted(lease).Sub(released)
	t.Logf("%d killed: the next that is alive was granted the lock %v after the release", k, took.Round(time.Millisecond))
	require.NoError(t, lease.Unlock())
	// The tickets of the dead stay until a caller comes ten seconds after their death. They delay no one.
	lease, err := fair.New(f.waiter, name).TryLock(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	f.view.NoImmortals(t)
}

// Order: a process that is stopped in the queue for longer than its life is skipped. It keeps its position if
// it comes back soon, and moves to the end if it comes back late. It gets the lock either way.
func TestWaiterThatWasStoppedGetsTheLockLater(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process that is stopped outlasts what the server keeps for it")
	for name, late := range map[string]bool{"ComesBackSoon": false, "ComesBackLate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			held := f.hold(t, name)
			p := f.start(t, "queue", workOrder{name: name, sessions: 1, users: 1})
			f.waiting(t, name, 1)
			p.Freeze()
			f.awaitFirst(t, name, dead)
			other := f.queueFor(t, f.waiter, name, 2)
			require.NoError(t, held.Unlock())
			second := locktest.MustHave(t, other)
			require.Equal(t, 1, f.view.Waiting(name), "the stopped one has its ticket")
			if late {
				require.NoError(t, second.Unlock())
				f.awaitLost(t, name)
				second = f.hold(t, name)
			}
			third := f.queueFor(t, f.holder, name, map[bool]int{false: 2, true: 1}[late])
			begun := time.Now()
			p.Thaw()
			if late {
				f.waiting(t, name, 2) // it finds out that it has no ticket, and queues behind the third
			} else {
				f.awaitFirst(t, name, alive)
			}
			t.Logf("it was back %v after it went on", time.Since(begun).Round(time.Millisecond))
			require.NoError(t, second.Err(), "who has the lock was disturbed")
			require.NoError(t, second.Unlock())
			says(t, p, redistest.Patience, "began")
			tokens := make(map[bool]uint64) // of the child, and of the third
			for _, child := range []bool{!late, late} {
				if child {
					tokens[child] = childGets(t, p)
					continue
				}
				lease := locktest.MustHave(t, third)
				tokens[child] = lease.Token()
				require.NoError(t, lease.Unlock())
			}
			require.Equal(t, late, tokens[true] > tokens[false], "the order of the queue")
			f.nothingLeft(t)
		})
	}
}

// childGets makes the child acquire the lock and release it, and returns its token.
func childGets(t *testing.T, p *redistest.Process) (token uint64) {
	t.Helper()
	var user int
	_, err := fmt.Sscanf(says(t, p, bound, "granted"), "granted %d %d", &user, &token)
	require.NoError(t, err)
	p.Send("unlock")
	says(t, p, bound, "unlocked <nil>")
	return token
}

// awaitFirst waits until the first in the queue counts as alive, or as dead.
func (f *fixture) awaitFirst(t *testing.T, name, what string) {
	t.Helper()
	lock := fair.New(f.waiter, name)
	redistest.Await(t, "the head of the queue counts as "+what, func() bool {
		for first, err := range lock.Waiters(t.Context()) {
			require.NoError(t, err)
			return first.Alive == (what == alive)
		}
		return false
	})
}

// What a waiter counts as.
const alive, dead = "alive", "dead"

// awaitLost waits until a dead waiter has lost its ticket, which another session has to remove.
func (f *fixture) awaitLost(t *testing.T, name string) {
	t.Helper()
	lock := fair.New(f.waiter, name)
	redistest.AwaitFor(t, limit, "the dead waiter has lost its ticket", func() bool {
		lease, err := lock.TryLock(t.Context())
		require.NoError(t, err, "who tries goes before the dead")
		require.NoError(t, lease.Unlock())
		return f.view.Waiting(name) == 0
	})
}

// P1, P6: a waiter that is stopped while it is granted the lock loses it to the next one, does not believe
// the old message when it continues, and gets the lock in its turn.
func TestWaiterThatWasStoppedAsItWasGrantedGetsTheLockLater(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process that is stopped outlasts what the server keeps for it")
	f := newFixture(t)
	const name = "stopped"
	held := f.hold(t, name)
	p := f.start(t, "queue", workOrder{name: name, sessions: 1, users: 1})
	f.waiting(t, name, 1)
	other := f.queueFor(t, f.waiter, name, 2)
	p.Freeze()
	require.NoError(t, held.Unlock())
	require.Greater(t, f.view.MustHold(t, name).Token, held.Token(), "it was granted the lock")
	second := locktest.MustHave(t, other)
	p.Thaw()
	f.waiting(t, name, 1) // it finds out, and queues again
	require.NoError(t, second.Err())
	says(t, p, redistest.Patience, "began")
	require.NoError(t, second.Unlock())
	require.Greater(t, childGets(t, p), second.Token())
	f.nothingLeft(t)
}

// P2: a holder that is stopped past its lease finds the loss at its first check, and the next one is left
// alone.
func TestAStoppedHolderLearnsOfItsLossAndSparesTheNext(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a process that is stopped outlasts what the server keeps for it")
	f := newFixture(t)
	const name = "paused"
	held := f.hold(t, name)
	p := f.start(t, "queue", workOrder{name: name, sessions: 1, users: 1})
	f.waiting(t, name, 1)
	require.NoError(t, held.Unlock())
	says(t, p, redistest.Patience, "began")
	says(t, p, redistest.Patience, "granted")
	p.Freeze()                                                                   // before its first renewal, mostly: its hold lasts as long as it counted as alive
	got := redistest.ReceiveFor(t, limit, "the lock", begins(t, f.waiter, name)) // a lease later, if it was renewed
	require.NoError(t, got.Err)
	next := got.Value
	p.Send("unlock")
	p.Thaw()
	require.Contains(t, says(t, p, redistest.Patience, "unlocked"), signalbox.ErrLost.Error())
	require.NoError(t, next.Err())
	require.NoError(t, next.Unlock())
	f.nothingLeft(t)
}
