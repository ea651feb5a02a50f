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
	everywhere(t, func(f *fixture) {
		name := f.name()
		lease := f.mustLock(locktest.Context(f), f.lock(name, signalbox.WithRenewedLease(500*time.Millisecond)))
		bound := lease.Bind(context.Background())
		require.NoError(f, f.query(name, "DEL").Error())
		redistest.Receive(f, "the end of the lease", lease.Done())
		require.ErrorIs(f, lease.Err(), signalbox.ErrLost)
		require.ErrorIs(f, context.Cause(bound), signalbox.ErrLost)
		require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost)

		next := f.mustLock(locktest.Context(f), f.lock(name))
		require.Greater(f, next.Token(), lease.Token())
		require.NoError(f, next.Unlock())
	})
}

// P2: a renewed lease is held for as long as its holder likes. Its life is long enough for a
// machine that stalls for some seconds.
func TestARenewedLeaseLivesPastItsLife(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "keys end by the clocks of real servers")
	const life = 5 * time.Second
	everywhere(t, func(f *fixture) {
		name := f.name()
		other := f.lock(name)
		lease := f.mustLock(locktest.Context(f), f.lock(name, signalbox.WithRenewedLease(life)))
		ends := lease.Deadline()
		redistest.Await(f, "a moment after the first deadline", func() bool {
			require.NoError(f, lease.Err())
			return time.Now().After(ends)
		})
		f.mustBeHeld(other)
		require.NoError(f, lease.Unlock())
		require.True(f, f.isFree(name))
	})
}

// P2: a lease ends here before the hold ends on the server, and that ends when it should.
func TestLeaseEndsBeforeItsKey(t *testing.T) {
	t.Parallel()
	everywhere(t, func(f *fixture) {
		name, life := f.name(), time.Hour
		lease := f.mustLock(locktest.Context(f), f.lock(name, signalbox.WithFixedLease(life)))
		hold := locktest.NewView(f, f).MustHold(f, name)
		require.False(f, hold.Ends.Before(lease.Deadline()))
		require.False(f, hold.Ends.After(time.Now().Add(life+time.Second)))
		require.NoError(f, lease.Unlock())
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
	everywhere(t, func(f *fixture) {
		crowds <- struct{}{}
		defer func() { <-crowds }()
		name := f.name()
		mine, other := f.session(), f.session()
		lockOf := func(s *signalbox.Session, i int) locktest.Lock {
			return f.kind.New(s, fmt.Sprint(name, " of many ", i))
		}
		leases := make([]signalbox.Lease, many)
		locktest.Together(f, many, func(i int) (err error) {
			leases[i], err = lockOf(mine, i).Lock(locktest.Context(f))
			return err
		})
		kept := leases
		if _, forced := lockOf(mine, 0).(locktest.Forcible); forced {
			locktest.Together(f, many/2, func(i int) error { return lockOf(other, i).(locktest.Forcible).ForceUnlock(locktest.Context(f)) })
			for _, lease := range leases[:many/2] {
				redistest.Receive(f, "the end of a lease", lease.Done())
			}
			kept = leases[many/2:]
		}
		locktest.Together(f, len(kept), func(i int) error {
			if err := kept[i].Err(); err != nil {
				return err
			}
			return locktest.IgnoreUnconfirmed(kept[i].Unlock())
		})
		redistest.Await(f, "the end of what was not confirmed", func() bool { return locktest.Undoing(mine) == 0 })
		locktest.Together(f, many, func(i int) error {
			lease, err := lockOf(other, i).TryLock(locktest.Context(f))
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
	everywhere(t, func(f *fixture) {
		name := f.name()
		sessions := []*signalbox.Session{f.session(), f.session(), f.session()}
		held := f.mustLock(locktest.Context(f), f.kind.New(sessions[0], name))

		waits, giveUp := context.WithCancel(locktest.Context(f))
		defer giveUp()
		gaveUp := locktest.LaterWith(waits, f.kind.New(sessions[1], name).Lock)
		got := locktest.LaterWith(locktest.Context(f), f.kind.New(sessions[2], name).Lock)
		for _, s := range sessions[1:] {
			redistest.Await(f, "a waiter", func() bool { return locktest.Channels(s) > 0 })
		}
		giveUp()
		require.ErrorIs(f, locktest.MustFail(f, gaveUp), context.Canceled)
		require.NoError(f, held.Unlock())
		require.NoError(f, locktest.MustHave(f, got).Unlock())

		for _, s := range sessions {
			require.NoError(f, s.Close(locktest.Context(f)))
		}
		redistest.Await(f, "channels without listeners", func() bool { return f.listeners(name) == 0 })
		require.True(f, f.isFree(name))
		require.Empty(f, f.immortal(name))
	})
}
