// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

type depthKey int

// deeper answers ctx with values around it, as requests gather them.
func deeper(ctx context.Context, depth int) context.Context {
	for i := range depth {
		ctx = context.WithValue(ctx, depthKey(i), i)
	}
	return ctx
}

// P7: entering again makes no round trip and allocates nothing, ten contexts deep.
func TestEnteringAgainSendsNoCommandAndAllocatesNothing(t *testing.T) {
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.RenewedLease(longest))
	lease := locktest.Must(t, mu.Lock)
	ctx := deeper(lease.Enter(t.Context()), 10)
	var allocated float64
	require.Empty(t, server.SentBy(func() {
		allocated = testing.AllocsPerRun(100, func() {
			again, err := mu.Lock(ctx)
			if err != nil || again.Token() != lease.Token() || again.Err() != nil {
				t.Error("not entered again", err)
			}
			if err := again.Unlock(); err != nil {
				t.Error(err)
			}
		})
	}))
	require.Zero(t, allocated)
	require.NoError(t, lease.Unlock())
}

// P3: all entries of a hold have its token, and its terms.
func TestEnteringAgainKeepsTokenAndTerms(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	lease := locktest.Must(t, reentrant.New(s, "a", signalbox.RenewedLease(longest)).Lock)
	ctx := lease.Enter(t.Context())
	// The options of the lock that enters are those of another hold: they are left aside.
	mu := reentrant.New(s, "a", signalbox.FixedLease(time.Second))
	for _, enter := range []func(context.Context) (signalbox.Lease, error){mu.Lock, mu.TryLock} {
		again, err := enter(ctx)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), again.Token())
		require.WithinDuration(t, lease.Deadline(), again.Deadline(), time.Minute)
		require.NoError(t, again.Unlock())
	}
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock())
}

// P1: a carried lease that has ended is an error, never a new acquire: what its holder thinks to
// be inside of is over.
func TestACarriedLeaseThatWasReleasedNeverAcquires(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a")
	lease := locktest.Must(t, mu.Lock)
	entered := lease.Enter(t.Context())
	require.NoError(t, lease.Unlock())
	// Also where the context itself lives on.
	for _, ctx := range []context.Context{entered, context.WithoutCancel(entered), deeper(entered, 3)} {
		require.Empty(t, server.SentBy(func() {
			_, err := mu.Lock(ctx)
			require.ErrorIs(t, err, signalbox.ErrReleased)
			_, err = mu.TryLock(ctx)
			require.ErrorIs(t, err, signalbox.ErrReleased)
			err = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
				t.Error("a lease that has ended was entered")
				return nil
			})
			require.ErrorIs(t, err, signalbox.ErrReleased)
		}))
	}
}

// P8: a context names the leases it carries, and enters no other lock.
func TestALeaseEntersItsOwnNameOnly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	a, b := reentrant.New(s, "a"), reentrant.New(s, "b")
	outer := locktest.Must(t, a.Lock)
	inner, err := b.Lock(outer.Enter(t.Context()))
	require.NoError(t, err)
	require.NotEqual(t, outer.Token(), inner.Token())
	require.True(t, isHeld(t, server, "b"))
	both := inner.Enter(outer.Enter(t.Context()))
	for mu, lease := range map[*reentrant.Lock]signalbox.Lease{a: outer, b: inner} {
		again, err := mu.TryLock(both)
		require.NoError(t, err)
		require.Equal(t, lease.Token(), again.Token())
		require.NoError(t, again.Unlock())
	}
	require.NoError(t, inner.Unlock())
	require.NoError(t, outer.Unlock())
}

// P1: an entry counts as long as any: the hold goes on with the inner one when the outer is
// given back, and the inner one can be entered.
func TestAnInnerLeaseCarriesOnAfterTheOuter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	outer := locktest.Must(t, mu.Lock)
	inner, err := mu.Lock(outer.Enter(t.Context()))
	require.NoError(t, err)
	ctx := inner.Enter(context.WithoutCancel(outer.Enter(t.Context()))) // carries both
	require.NoError(t, outer.Unlock())
	innermost, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, inner.Unlock())
	require.NoError(t, innermost.Err())
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, innermost.Unlock())
	require.False(t, isHeld(t, server, "a"))
}

// P1: Bind bounds a life and gives no right.
func TestABoundContextDoesNotEnter(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	lease := locktest.Must(t, mu.Lock)
	_, err := mu.TryLock(lease.Bind(t.Context()))
	require.ErrorIs(t, err, signalbox.ErrHeld)
	// Nor does it take one away that is there.
	again, err := mu.TryLock(lease.Bind(lease.Enter(t.Context())))
	require.NoError(t, err)
	require.NoError(t, again.Unlock())
	require.NoError(t, lease.Unlock())
}

// P1: no command, whatever happens inside, and as many entries as anybody wants.
func TestManyEntriesAreOneHold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.RenewedLease(longest))
	lease := locktest.Must(t, mu.Lock)
	ctx := lease.Enter(t.Context())
	entries := make([]signalbox.Lease, 100)
	require.Empty(t, server.SentBy(func() {
		for i := range entries {
			var err error
			entries[i], err = mu.Lock(ctx)
			require.NoError(t, err)
			ctx = entries[i].Enter(ctx)
		}
		require.NoError(t, lease.Unlock())
		for _, entry := range entries[:99] {
			require.NoError(t, entry.Unlock())
			require.ErrorIs(t, entry.Unlock(), signalbox.ErrNotHeld)
		}
	}))
	require.True(t, isHeld(t, server, "a"))
	require.NoError(t, entries[99].Unlock())
	require.False(t, isHeld(t, server, "a"))
}

// P1: the same if the lease was lost.
func TestACarriedLeaseThatWasLostNeverAcquires(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	lease := locktest.Must(t, mu.Lock)
	ctx := lease.Enter(t.Context())
	require.NoError(t, mu.ForceUnlock(t.Context()))
	redistest.Receive(t, "the end of the lease", lease.Done())
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, signalbox.ErrLost)
	_, err = mu.TryLock(context.WithoutCancel(ctx))
	require.ErrorIs(t, err, signalbox.ErrLost)
}

// P1: leases of another session mean nothing here, even in one process.
func TestALeaseOfAnotherSessionIsAStranger(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	ctx, cancel := context.WithCancel(lease.Enter(t.Context()))
	other := reentrant.New(locktest.SteadySession(t, server), "a")
	_, err := other.TryLock(ctx)
	require.ErrorIs(t, err, signalbox.ErrHeld)
	waiting := locktest.Contend(ctx, t, server, "a", other.Lock)
	cancel()
	require.ErrorIs(t, locktest.MustFail(t, waiting), context.Canceled)
	require.NoError(t, lease.Unlock())
}
