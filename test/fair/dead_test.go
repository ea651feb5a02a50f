// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/stamp"
)

// granted answers when the server granted a lease, by its own clock.
func granted(lease signalbox.Lease) time.Time {
	return time.UnixMicro(int64(stamp.Floor(lease.Token())))
}

// P6: waiters that are killed, however many, delay the next one that lives by what they count as
// living for, together and not each.
func TestKilledWaitersDelayTheNextByOneLifeTogether(t *testing.T) {
	t.Parallel()
	for _, k := range []int{1, 10, 100} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			t.Parallel()
			newWorld(t).killWaiters(t, k)
		})
	}
}

func TestSoakKilledWaitersDelayTheNextByOneLifeTogether(t *testing.T) { //nolint:paralleltest // has the machine to itself
	rounds := 0
	for more := locktest.Soak(t); more(); rounds++ {
		t.Run("", func(t *testing.T) { newWorld(t).killWaiters(t, []int{1, 10, 100, 400}[rounds%4]) })
	}
}

// killWaiters lets k sessions stand in line before one that lives, kills them, and gives the lock back.
func (w *world) killWaiters(t *testing.T, k int) {
	t.Helper()
	const name = "killed"
	held := w.hold(t, name)
	var doomed []*redistest.Process
	for left := k; left > 0; {
		n := min(left, max(k/4, 1))
		doomed = append(doomed, w.start(t, "queue", order{name: name, sessions: n, users: 1}))
		left -= n
	}
	w.waiting(t, name, k)
	got := w.asks(t, w.waiter, name, k+1)
	for _, p := range doomed {
		p.Kill()
	}
	released := w.view.Now(t)
	require.NoError(t, held.Unlock())
	r := gets(t, got, limit)
	took := granted(r.lease).Sub(released)
	t.Logf("%d killed: the next that lives was granted the lock %v after the release, and had it %v after the grant",
		k, took.Round(time.Millisecond), r.at.Sub(granted(r.lease)).Round(time.Microsecond))
	require.Less(t, took, bound)
	require.NoError(t, r.lease.Unlock())
	// The dead stand in line until somebody comes by ten seconds after their death. They are in nobody's way.
	lease, err := fair.New(w.waiter, name).TryLock(locktest.Context(t))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	w.view.NoImmortals(t)
}

// P6: a waiter that is granted the lock and dies before it begins costs what it counted as living
// for, and then the next has the lock.
func TestGrantToAWaiterThatDiesPassesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "granted"
	held := w.hold(t, name)
	p := w.start(t, "queue", order{name: name, sessions: 1, users: 1})
	w.waiting(t, name, 1)
	got := w.asks(t, w.waiter, name, 2)
	w.refreshed(t, name)
	p.Freeze()
	require.NoError(t, held.Unlock())
	h := w.view.MustHold(t, name)
	require.Equal(t, 1, h.Waiting, "the stopped one was granted the lock, while it counts as living")
	require.Greater(t, h.Token, held.Token())
	p.Kill()
	r := gets(t, got, limit)
	at := granted(r.lease)
	t.Logf("passed on %v after the release, %v after the end of the dead one's hold", at.Sub(granted(held)), at.Sub(h.Ends))
	require.Greater(t, r.lease.Token(), h.Token)
	require.False(t, at.Before(h.Ends.Truncate(time.Millisecond)), "the dead one's hold was not over")
	require.Less(t, at.Sub(h.Ends), bound)
	require.NoError(t, r.lease.Unlock())
	w.nothingLeft(t)
}

// P6, order: where the holder dies and nobody but the waiters is there to find out, the first of
// them gets the lock, and then the others in their order.
func TestLockOfADeadHolderGoesToTheFirstInLine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name, waiters = "orphan", 12
	held := w.hold(t, name)
	p := w.start(t, "queue", order{name: name, sessions: 1, users: 1, lease: 3 * life})
	w.waiting(t, name, 1)
	require.NoError(t, held.Unlock())
	says(t, p, redistest.Patience, "began")
	says(t, p, redistest.Patience, "granted")
	redistest.Await(t, "a renewal, which gives time for a line to form", func() bool {
		return w.view.MustHold(t, name).Ends.Sub(w.view.Now(t)) > life
	})
	p.Freeze()
	h := w.view.MustHold(t, name)
	sessions := []*signalbox.Session{w.waiter, w.holder, locktest.Session(t, w.server)}
	line := make([]<-chan result, waiters)
	for i := range line {
		line[i] = w.asks(t, sessions[i%len(sessions)], name, i+1)
	}
	p.Kill()
	var last uint64
	for i, got := range line {
		r := gets(t, got, limit)
		if i == 0 {
			took := granted(r.lease).Sub(h.Ends)
			t.Logf("the first had the lock %v after the dead one's hold was over", took.Round(time.Millisecond))
			require.Less(t, took, bound)
			require.GreaterOrEqual(t, took, -time.Millisecond)
		}
		require.Greater(t, r.lease.Token(), last, "in the order of the line")
		last = r.lease.Token()
		require.NoError(t, r.lease.Unlock())
	}
	w.nothingLeft(t)
}

// Order: a process that is stopped in line for longer than it counts as living is passed over, goes
// on where it stood when it comes back soon, and stands at the end when it comes back late. It
// gets the lock either way.
func TestWaiterThatWasStoppedInLineGetsTheLockLater(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"ComesBackSoon": false, "ComesBackLate": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			held := w.hold(t, name)
			p := w.start(t, "queue", order{name: name, sessions: 1, users: 1})
			w.waiting(t, name, 1)
			p.Freeze()
			w.awaitFirst(t, name, dead)
			other := w.asks(t, w.waiter, name, 2)
			require.NoError(t, held.Unlock())
			second := gets(t, other, bound).lease
			require.Equal(t, 1, w.view.Waiting(name), "the stopped one has its place")
			if late {
				require.NoError(t, second.Unlock())
				w.awaitLost(t, name)
				second = w.hold(t, name)
			}
			third := w.asks(t, w.holder, name, map[bool]int{false: 2, true: 1}[late])
			begun := time.Now()
			p.Thaw()
			if late {
				w.waiting(t, name, 2) // it finds out that it has no place, and stands behind the third
			} else {
				w.awaitFirst(t, name, living)
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
				lease := gets(t, third, bound).lease
				tokens[child] = lease.Token()
				require.NoError(t, lease.Unlock())
			}
			require.Equal(t, late, tokens[true] > tokens[false], "the order of the line")
			w.nothingLeft(t)
		})
	}
}

// childGets lets the child have the lock and give it back, and answers its token.
func childGets(t *testing.T, p *redistest.Process) (token uint64) {
	t.Helper()
	var user int
	_, err := fmt.Sscanf(says(t, p, bound, "granted"), "granted %d %d", &user, &token)
	require.NoError(t, err)
	p.Send("unlock")
	says(t, p, bound, "unlocked <nil>")
	return token
}

// awaitFirst waits until the first in line counts as living, or as dead.
func (w *world) awaitFirst(t *testing.T, name, what string) {
	t.Helper()
	lock := fair.New(w.waiter, name)
	redistest.Await(t, "the first in line counts as "+what, func() bool {
		for first, err := range lock.Waiters(t.Context()) {
			require.NoError(t, err)
			return first.Alive == (what == living)
		}
		return false
	})
}

// refreshed waits until the first in line was heard of just now: it counts as living for most of a life from here.
func (w *world) refreshed(t *testing.T, name string) {
	t.Helper()
	const left = `
local time = redis.call('TIME')
local first = redis.call('ZRANGE', KEYS[1], 0, 0)[1]
local life = redis.call('HGET', KEYS[2], string.sub(first, 1, 22))
return string.sub(life, 1, 16) - (time[1] * 1000000 + time[2])`
	keys := locktest.Keys(name)
	redistest.Await(t, "a heartbeat of the first in line", func() bool {
		micros, ok := w.server.MustDo(t, "EVAL", left, 2, keys.Line(), keys.Lives()).(int64)
		return ok && time.Duration(micros)*time.Microsecond > life*9/10
	})
}

// What a waiter counts as.
const living, dead = "living", "dead"

// awaitLost waits until a dead waiter has lost its place, which somebody has to see to.
func (w *world) awaitLost(t *testing.T, name string) {
	t.Helper()
	lock := fair.New(w.waiter, name)
	redistest.AwaitFor(t, limit, "the dead waiter has lost its place", func() bool {
		lease, err := lock.TryLock(t.Context())
		require.NoError(t, err, "who tries goes before the dead")
		require.NoError(t, lease.Unlock())
		return w.view.Waiting(name) == 0
	})
}

// P1, P6: a waiter that is stopped while it is granted the lock loses it to the next one, does not
// believe the old message when it goes on, and gets the lock in its turn.
func TestWaiterThatWasStoppedAsItWasGrantedGetsTheLockLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "stopped"
	held := w.hold(t, name)
	p := w.start(t, "queue", order{name: name, sessions: 1, users: 1})
	w.waiting(t, name, 1)
	other := w.asks(t, w.waiter, name, 2)
	p.Freeze()
	require.NoError(t, held.Unlock())
	require.Greater(t, w.view.MustHold(t, name).Token, held.Token(), "it was granted the lock")
	second := gets(t, other, bound).lease
	p.Thaw()
	w.waiting(t, name, 1) // it finds out, and stands in line again
	require.NoError(t, second.Err())
	says(t, p, redistest.Patience, "began")
	require.NoError(t, second.Unlock())
	require.Greater(t, childGets(t, p), second.Token())
	w.nothingLeft(t)
}

// P2: a holder that is stopped past its lease is told at its first look, and the next one is left
// alone.
func TestHolderThatWasStoppedIsToldAndTheNextIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "paused"
	held := w.hold(t, name)
	p := w.start(t, "queue", order{name: name, sessions: 1, users: 1})
	w.waiting(t, name, 1)
	require.NoError(t, held.Unlock())
	says(t, p, redistest.Patience, "began")
	says(t, p, redistest.Patience, "granted")
	p.Freeze() // before its first renewal, mostly: its hold lasts as long as it counted as living
	next := gets(t, begins(t, w.waiter, name), limit).lease
	p.Send("unlock")
	p.Thaw()
	require.Contains(t, says(t, p, redistest.Patience, "unlocked"), signalbox.ErrLost.Error())
	require.NoError(t, next.Err())
	require.NoError(t, next.Unlock())
	w.nothingLeft(t)
}
