// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P2: a lease is renewed for ten hours, each third of its life, and its key never comes near
// its end.
func TestLeaseIsRenewedForTenHours(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		const life = 30 * time.Second
		hours := redistest.Rounds(2, 10)
		s, _, closeAll := f.session(t)
		defer closeAll()
		lease, err := reentrant.New(s, "long", signalbox.WithRenewedLease(life)).Lock(t.Context())
		require.NoError(t, err)
		before := f.commands.Load()
		for range hours * 3600 {
			time.Sleep(time.Second)
			require.NoError(t, lease.Err())
			require.GreaterOrEqual(t, f.left("long"), life*2/3-time.Second)
			require.Less(t, time.Until(lease.Deadline()), f.left("long"))
		}
		// A renewal each third of the life, a fiftieth of that earlier at the most. The server
		// counts a script and the commands in it for each: GET, PEXPIRE, and PTTL as it has no PEXPIRE with GT.
		renewals := time.Duration(hours) * time.Hour / (life / 3)
		counted := f.commands.Load() - before
		require.GreaterOrEqual(t, counted, int64(renewals))
		require.LessOrEqual(t, counted, int64(renewals)*4*51/50+4)
		require.NoError(t, lease.Unlock())
		require.Zero(t, f.left("long"))
	})
}

// The first renewal of many locks does not go key by key although the session does not know yet whether one script may have
// keys of several slots.
func TestTheFirstRenewalOfManyLocksWaitsForTheProbe(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		c, link := f.client(t)
		defer c.Close()
		s := signalbox.NewSession(c)
		defer func() { require.NoError(t, s.Close(t.Context())) }()
		link.latency.Store(int64(2 * time.Millisecond))
		leases := make([]signalbox.Lease, 300)
		atTheSameTime(len(leases), func(i int) {
			var err error
			leases[i], err = reentrant.New(s, fmt.Sprint("many/", i), signalbox.WithRenewedLease(30*time.Second)).Lock(t.Context())
			require.NoError(t, err)
		})
		before := f.scripts.Load()
		time.Sleep(15 * time.Second) // each was renewed once
		require.Less(t, f.scripts.Load()-before, int64(100), "300 keys, of which a script has up to 256")
		for _, lease := range leases {
			require.NoError(t, lease.Unlock())
		}
	})
}

// P6: a waiter has the lock of a crashed holder as soon as its key has ended.
func TestCrashedHoldersLockIsTakenOverAsItsKeyEnds(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		for i := range 20 {
			name := fmt.Sprint("crash/", i)
			crashed, link, closeCrashed := f.session(t, signalbox.WithDefaults(signalbox.WithRenewedLease(10*time.Second)))
			s, _, closeWaiter := f.session(t)
			first, err := reentrant.New(crashed, name).Lock(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Duration(i) * 777 * time.Millisecond)
			link.goSilent()
			ends := time.Now().Add(f.left(name))
			lease, err := reentrant.New(s, name).Lock(t.Context())
			require.NoError(t, err)
			require.WithinRange(t, time.Now(), ends, ends.Add(5*time.Millisecond))
			require.Greater(t, lease.Token(), first.Token())
			require.ErrorIs(t, first.Err(), signalbox.ErrLost)
			require.NoError(t, lease.Unlock())
			closeWaiter()
			closeCrashed()
		}
	})
}

// P6, P7: a process that waits for an hour polls about once a second, however many of its goroutines wait,
// and each waiter is a goroutine that was there before.
func TestWaitersOfOneProcessPollOnceASecondTogether(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		holder, _, closeHolder := f.session(t)
		defer closeHolder()
		s, _, closeWaiters := f.session(t)
		defer closeWaiters()
		held, err := reentrant.New(holder, "watched").Lock(t.Context())
		require.NoError(t, err)
		var waiters sync.WaitGroup
		for range 50 {
			waiters.Go(func() {
				lease, err := reentrant.New(s, "watched").Lock(t.Context())
				if err == nil {
					err = lease.Unlock()
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Minute)
		before := f.scripts.Load()
		seconds := redistest.Rounds(600, 3600)
		time.Sleep(time.Duration(seconds) * time.Second)
		requested := f.scripts.Load() - before
		require.Greater(t, requested, int64(seconds))
		require.Less(t, requested, int64(seconds*10/8+seconds/9), "polls and renewals")
		require.NoError(t, held.Unlock())
		waiters.Wait()
	})
}

// P7: a session that holds nothing and waits for nothing asks nothing, and has no goroutine,
// once the linger is over.
func TestIdleSessionCostsNothing(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		t := f.T
		a, _, closeA := f.session(t)
		defer closeA()
		b, _, closeB := f.session(t)
		defer closeB()
		var users sync.WaitGroup
		for i := range 20 {
			users.Go(func() {
				lock := reentrant.New([]*signalbox.Session{a, b}[i%2], fmt.Sprint("idle/", i%3))
				for range 20 {
					lease, err := lock.Lock(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					time.Sleep(5 * time.Millisecond)
					if err := lease.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		users.Wait()
		gaveUp, cancel := context.WithTimeout(t.Context(), 0)
		cancel()
		_, err := reentrant.New(a, "idle/0").Lock(gaveUp)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(10 * time.Second) // the linger is 3 s
		synctest.Wait()
		require.Zero(t, goroutines())
		require.Empty(t, f.redis.PubSubChannels(""))
		before := f.commands.Load()
		time.Sleep(time.Hour)
		synctest.Wait()
		require.Equal(t, before, f.commands.Load())
		require.Zero(t, goroutines())
		time.Sleep(time.Hour)
		require.Empty(t, f.redis.Keys(), "floors end, too")
	})
}
