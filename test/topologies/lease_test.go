// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P2: the next renewal reports a hold that was removed.
func TestADeletedKeyIsReportedByTheNextRenewal(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *fixture) {
		name := w.name()
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.WithRenewedLease(500*time.Millisecond)))
		bound := lease.Bind(context.Background())
		require.NoError(w, w.query(name, "DEL").Error())
		redistest.Receive(w, "the end of the lease", lease.Done())
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(w, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost)

		next := w.mustLock(locktest.Context(w), w.lock(name))
		require.Greater(w, next.Token(), lease.Token())
		require.NoError(w, next.Unlock())
	})
}

// P2: a renewed lease is held for as long as its holder likes. Its life is long enough for a
// machine that stalls for some seconds.
func TestARenewedLeaseLivesPastItsLife(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "keys end by the clocks of real servers")
	const life = 5 * time.Second
	everywhere(t, func(w *fixture) {
		name := w.name()
		other := w.lock(name)
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.WithRenewedLease(life)))
		ends := lease.Deadline()
		redistest.Await(w, "a moment after the first deadline", func() bool {
			require.NoError(w, lease.Err())
			return time.Now().After(ends)
		})
		w.mustBeHeld(other)
		require.NoError(w, lease.Unlock())
		require.True(w, w.isFree(name))
	})
}

// P2: a lease ends here before the hold ends on the server, and that ends when it should.
func TestLeaseEndsBeforeItsKey(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *fixture) {
		name, life := w.name(), time.Hour
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.WithFixedLease(life)))
		hold := locktest.NewView(w, w).MustHold(w, name)
		require.False(w, hold.Ends.Before(lease.Deadline()))
		require.False(w, hold.Ends.After(time.Now().Add(life+time.Second)))
		require.NoError(w, lease.Unlock())
	})
}

// crowds lets few of those run at a time who have many goroutines: an Unlock waits for a second, and not for the other
// fixtures' goroutines to have had their turns.
var crowds = make(chan struct{}, 4)

// P2, P7, P9: many locks at once, wherever their keys are: acquires, checks of what is held, and releases go in batches,
// which a cluster does not take for keys of several slots.
func TestManyNamesAreHeldAtOnce(t *testing.T) {
	t.Parallel()
	const many = 64
	everywhere(t, func(w *fixture) {
		crowds <- struct{}{}
		defer func() { <-crowds }()
		name := w.name()
		mine, other := w.session(), w.session()
		lockOf := func(s *signalbox.Session, i int) locktest.Lock {
			return w.kind.New(s, fmt.Sprint(name, " of many ", i))
		}
		leases := make([]signalbox.Lease, many)
		locktest.Together(w, many, func(i int) (err error) {
			leases[i], err = lockOf(mine, i).Lock(locktest.Context(w))
			return err
		})
		kept := leases
		if _, forced := lockOf(mine, 0).(locktest.Forcible); forced {
			locktest.Together(w, many/2, func(i int) error { return lockOf(other, i).(locktest.Forcible).ForceUnlock(locktest.Context(w)) })
			for _, lease := range leases[:many/2] {
				redistest.Receive(w, "the end of a lease", lease.Done())
			}
			kept = leases[many/2:]
		}
		locktest.Together(w, len(kept), func(i int) error {
			if err := kept[i].Err(); err != nil {
				return err
			}
			return locktest.IgnoreUnconfirmed(kept[i].Unlock())
		})
		redistest.Await(w, "the end of what was not confirmed", func() bool { return locktest.Undoing(mine) == 0 })
		locktest.Together(w, many, func(i int) error {
			lease, err := lockOf(other, i).TryLock(locktest.Context(w))
			if err != nil {
				return err
			}
			return lease.Unlock()
		})
	})
}

// P4: when all is released and given up, and the sessions are closed, nothing stays that does not end by itself.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *fixture) {
		name := w.name()
		sessions := []*signalbox.Session{w.session(), w.session(), w.session()}
		held := w.mustLock(locktest.Context(w), w.kind.New(sessions[0], name))

		waits, giveUp := context.WithCancel(locktest.Context(w))
		defer giveUp()
		gaveUp := locktest.LaterWith(waits, w.kind.New(sessions[1], name).Lock)
		got := locktest.LaterWith(locktest.Context(w), w.kind.New(sessions[2], name).Lock)
		for _, s := range sessions[1:] {
			redistest.Await(w, "a waiter", func() bool { return locktest.Channels(s) > 0 })
		}
		giveUp()
		require.ErrorIs(w, locktest.MustFail(w, gaveUp), context.Canceled)
		require.NoError(w, held.Unlock())
		require.NoError(w, locktest.MustHave(w, got).Unlock())

		for _, s := range sessions {
			require.NoError(w, s.Close(locktest.Context(w)))
		}
		redistest.Await(w, "channels without listeners", func() bool { return w.listeners(name) == 0 })
		require.True(w, w.isFree(name))
		require.Empty(w, w.immortal(name))
	})
}
