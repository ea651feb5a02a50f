// SPDX-License-Identifier: Apache-2.0

package topologies_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P2: what was taken away is told by the next renewal.
func TestADeletedKeyIsToldByTheNextRenewal(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		name := w.name()
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.RenewedLease(2*time.Second)))
		bound := lease.Bind(context.Background())
		require.NoError(w, w.ask(name, "DEL").Error())
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
	const life = 5 * time.Second
	everywhere(t, func(w *world) {
		name := w.name()
		other := w.lock(name)
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.RenewedLease(life)))
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

// P2: a fixed lease ends by itself, here before the next holder has the lock, and not before its time.
func TestAFixedLeaseEnds(t *testing.T) {
	t.Parallel()
	const life = time.Second
	everywhere(t, func(w *world) {
		name := w.name()
		began := time.Now()
		lease := w.mustLock(locktest.Context(w), w.lock(name, signalbox.FixedLease(life)))
		next := w.mustLock(locktest.Context(w), w.lock(name))
		require.ErrorIs(w, lease.Err(), signalbox.ErrLost)
		require.Greater(w, time.Since(began), life/2)
		require.Greater(w, next.Token(), lease.Token())
		require.NoError(w, next.Unlock())
	})
}

// crowds lets few of those run at a time who have many goroutines: an Unlock waits for a second, and not for the other
// worlds' goroutines to have had their turns.
var crowds = make(chan struct{}, 4)

// P7, P9: many locks at once, wherever their keys are: acquires, renewals and releases go in batches, which
// a cluster does not take for keys of several slots.
func TestManyNamesAreHeldAndRenewedAtOnce(t *testing.T) {
	t.Parallel()
	const many = 200
	const life = 6 * time.Second
	everywhere(t, func(w *world) {
		crowds <- struct{}{}
		defer func() { <-crowds }()
		name := w.name()
		mine, other := w.session(), w.session()
		leases := make([]signalbox.Lease, many)
		deadlines := make([]time.Time, many)
		lockOf := func(s *signalbox.Session, i int) locktest.Lock {
			return w.kind.New(s, fmt.Sprint(name, " of many ", i), signalbox.RenewedLease(life))
		}
		locktest.Together(w, many, func(i int) (err error) {
			leases[i], err = lockOf(mine, i).Lock(locktest.Context(w))
			deadlines[i] = leases[i].Deadline()
			return err
		})
		redistest.Await(w, "the renewal of all", func() bool {
			for i, lease := range leases {
				require.NoError(w, lease.Err())
				if !lease.Deadline().After(deadlines[i]) {
					return false
				}
			}
			return true
		})
		locktest.Together(w, many, func(i int) error { return locktest.Confirmed(leases[i].Unlock()) })
		redistest.Await(w, "the end of what was not confirmed", func() bool { return locktest.Settling(mine) == 0 })
		locktest.Together(w, many, func(i int) error {
			lease, err := lockOf(other, i).TryLock(locktest.Context(w))
			if err != nil {
				return err
			}
			return lease.Unlock()
		})
	})
}

// P4, P7: when all is given back and given up, sessions do nothing more, and nothing stays that does not end
// by itself.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	everywhere(t, func(w *world) {
		name := w.name()
		sessions := []*signalbox.Session{w.session(), w.session(), w.session()}
		held := w.mustLock(locktest.Context(w), w.kind.New(sessions[0], name))

		waits, giveUp := context.WithCancel(locktest.Context(w))
		gaveUp, got := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := w.kind.New(sessions[1], name).Lock(waits)
			gaveUp <- err
		}()
		go func() {
			got <- w.kind.New(sessions[2], name).Do(locktest.Context(w), func(context.Context, signalbox.Lease) error { return nil })
		}()
		for _, s := range sessions[1:] {
			redistest.Await(w, "a waiter", func() bool { return locktest.Channels(s) > 0 })
		}
		giveUp()
		require.ErrorIs(w, <-gaveUp, context.Canceled)
		require.NoError(w, held.Unlock())
		require.NoError(w, <-got)

		for i, s := range sessions {
			redistest.Await(w, fmt.Sprint("rest in session ", i), func() bool {
				return locktest.Settling(s) == 0 && locktest.Channels(s) == 0
			})
		}
		redistest.Await(w, "channels without listeners", func() bool { return w.listeners(name) == 0 })
		require.True(w, w.isFree(name))
		require.Empty(w, w.immortal(name))
	})
}
