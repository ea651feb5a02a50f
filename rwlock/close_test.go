// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// P6: Close sends waiters away, and waits for holders; who waits elsewhere has the lock then.
func TestCloseSendsWaitersAwayAndWaitsForHolders(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithCloseGrace(patience))
	mu := rwlock.New(s, "a")
	lease := must(t, mu, write)
	waiting := []<-chan outcome{queue(t.Context(), t, server, mu, write, 1), queue(t.Context(), t, server, mu, read, 2)}
	elsewhere := queue(t.Context(), t, server, newLock(t, server, "a"), read, 3)
	closed := make(chan error, 1)
	go func() { closed <- s.Close(t.Context()) }()
	for _, w := range waiting {
		require.ErrorIs(t, mustFail(t, w), signalbox.ErrClosed)
	}
	require.False(t, isClosed(closed))
	require.NoError(t, lease.Err())
	require.ErrorIs(t, mu.Downgrade(t.Context(), lease), signalbox.ErrClosed)
	require.NoError(t, lease.Unlock())
	require.NoError(t, within(t, "the end of Close", closed))
	require.NoError(t, mustHave(t, elsewhere).Unlock())
	for _, take := range []side{write, read, tryWrite, tryRead} {
		require.ErrorIs(t, second(take(mu, t.Context())), signalbox.ErrClosed)
	}
}

// P4: where holders are not waited for, their leases end, and the lock goes on.
func TestCloseEndsTheLeasesOfThoseItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, side := range []side{write, read} {
		s := newSession(t, server)
		mu := rwlock.New(s, "a")
		leases := []signalbox.Lease{must(t, mu, side)}
		if beside, err := mu.TryRLock(t.Context()); err == nil {
			leases = append(leases, beside)
		}
		waiting := queue(t.Context(), t, server, newLock(t, server, "a"), write, 1)
		began := time.Now()
		require.Error(t, s.Close(endedContext()))
		for _, lease := range leases {
			require.ErrorIs(t, lease.Err(), signalbox.ErrLost)
			require.ErrorIs(t, lease.Err(), signalbox.ErrClosed)
			require.ErrorIs(t, lease.Unlock(), signalbox.ErrLost)
		}
		require.NoError(t, mustHave(t, waiting).Unlock())
		require.Less(t, time.Since(began), 20*time.Second, "long before the end of the lease")
		require.Zero(t, mu.Rooms())
	}
}

// P4: wherever a Close falls, everybody is sent away, leases end, and nothing is left.
func TestCloseUnderLoadLeavesNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for round := range 10 {
		s := signalbox.NewSession(server.Client(t, signalbox.Tune))
		other := newSession(t, server)
		var users sync.WaitGroup
		begun := make(chan struct{}, 1000)
		use := func(mu *rwlock.Lock, take side) {
			for {
				lease, err := take(mu, t.Context())
				if err != nil {
					if !errors.Is(err, signalbox.ErrClosed) {
						t.Error(err)
					}
					return
				}
				select {
				case begun <- struct{}{}:
				default:
				}
				err = lease.Unlock()
				if err != nil && !errors.Is(err, signalbox.ErrLost) {
					t.Error(err)
				}
			}
		}
		name := func(n int) string { return fmt.Sprint("load/", round, "/", n%2) }
		for n := range 10 {
			take := read
			if n%5 < 2 {
				take = write
			}
			users.Go(func() { use(rwlock.New(s, name(n)), take) })
			users.Go(func() { use(rwlock.New(other, name(n)), take) })
		}
		for range 10 + 7*round {
			within(t, "some use", begun)
		}
		ctx := t.Context()
		if round%2 == 0 {
			ctx = endedContext()
		}
		_ = s.Close(ctx)
		require.NoError(t, other.Close(context.WithoutCancel(t.Context())))
		done := make(chan struct{})
		go func() { users.Wait(); close(done) }()
		within(t, "the end of all users", done)
		for n := range 2 {
			awaitFree(t, server, name(n))
		}
		require.Zero(t, rwlock.New(s, "a").Rooms())
		require.Zero(t, rwlock.New(other, "a").Rooms())
	}
}

// P7: a session that holds nothing and waits for nothing says nothing.
func TestNothingRemainsAfterUse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newLock(t, server, "a"), newLock(t, server, "a")
	for range 10 {
		lease := must(t, one, write)
		waiting := []<-chan outcome{queue(t.Context(), t, server, other, read, 1), queue(t.Context(), t, server, other, write, 2)}
		require.NoError(t, lease.Unlock())
		for _, w := range waiting {
			require.NoError(t, mustHave(t, w).Unlock())
		}
	}
	await(t, "the end of the subscriptions", func() bool {
		channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
		return len(channels) == 0
	})
	await(t, "two seconds in which nothing is said", func() bool {
		return len(sentBy(server, func() { pass(2 * time.Second) })) == 0
	})
	require.Zero(t, one.Rooms()+other.Rooms())
	for _, key := range server.Keys("*") {
		require.Positive(t, integer(t, server.MustDo(t, "PTTL", key)), "%s has no end", key)
	}
}
