// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// P1, P3: whoever is inside is alone, and has a greater token than everybody before.
func TestHoldersOfOneNameDoNotOverlap(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const sessions, goroutines, rounds = 4, 4, 20
	var inside atomic.Int32
	var last uint64 // guarded by the lock under test
	var all sync.WaitGroup
	for range sessions {
		mu := reentrant.New(locktest.SteadySession(t, server), "order/42")
		for range goroutines {
			all.Go(func() {
				for range rounds {
					err := mu.Do(t.Context(), func(_ context.Context, lease signalbox.Lease) error {
						if inside.Add(1) != 1 {
							return errors.New("not alone")
						}
						defer inside.Add(-1)
						if lease.Token() <= last {
							return errors.New("the token is not greater than that of the last holder")
						}
						last = lease.Token()
						return nil
					})
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	all.Wait()
}

// P1: locks of one name in one session are the same lock.
func TestLocksOfOneNameInOneSessionAreOneLock(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	one, other := reentrant.New(s, "order/42"), reentrant.New(s, "order/42")
	lease := locktest.Must(t, one.Lock)
	_, err := other.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	again, err := other.Lock(lease.Enter(t.Context()))
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
	require.NoError(t, again.Unlock())
}

// P6: a waiter in another session is woken by the release, long before it would look by itself.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	waiting := locktest.Contend(t.Context(), t, server, "a", reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	require.NoError(t, holder.Unlock())
	got := locktest.MustHave(t, waiting)
	require.Greater(t, got.Token(), holder.Token())
	require.NoError(t, got.Unlock())
}

func TestTryLockAnswersErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	lease, err := reentrant.New(locktest.SteadySession(t, server), "a").TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	var op *signalbox.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "try lock", op.Op)
	require.Equal(t, "a", op.Name)
	require.EqualError(t, err, `signalbox: try lock "a": the lock is held`)
	require.Equal(t, signalbox.Lease{}, lease)
	require.NoError(t, holder.Unlock())
}

func TestTryLockTakesAFreeLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	for range 3 {
		lease, err := mu.TryLock(t.Context())
		require.NoError(t, err)
		require.True(t, isHeld(t, server, "a"))
		require.NoError(t, lease.Unlock())
		require.False(t, isHeld(t, server, "a"))
	}
}

// P7: what the process knows it does not ask the server.
func TestTryLockAsksNothingWhileItsSessionHoldsTheLock(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server, signalbox.WithPolling()), "a", signalbox.RenewedLease(longest))
	lease := locktest.Must(t, mu.Lock)
	require.Empty(t, server.SentBy(func() {
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld)
	}))
	require.NoError(t, lease.Unlock())
}

// P4: an ended context acquires nothing and sends nothing.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
	stopped := errors.New("the request was dropped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	require.Empty(t, server.SentBy(func() {
		_, err := mu.Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, stopped)
		err = mu.Do(ctx, func(context.Context, signalbox.Lease) error {
			t.Error("an ended context got the lock")
			return nil
		})
		require.ErrorIs(t, err, stopped)
	}))
}

// P4: entering again is no exception.
func TestAnEndedContextEntersNothingEither(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	lease := locktest.Must(t, mu.Lock)
	ctx, cancel := context.WithCancel(lease.Enter(t.Context()))
	cancel()
	_, err := mu.Lock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	_, err = mu.TryLock(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, lease.Unlock())
}

// P7: Check looks at what New was given, and asks nobody.
func TestCheckSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	require.Empty(t, server.SentBy(func() {
		require.NoError(t, reentrant.New(s, "a").Check())
		require.ErrorIs(t, reentrant.New(s, "").Check(), signalbox.ErrBadName)
	}))
}

// P4, P5: an acquire whose reply never came, or that reaches the server after its caller has given
// up, is taken back.
func TestAnAcquireWithoutAReplyIsTakenBack(t *testing.T) {
	t.Parallel()
	for name, strike := range map[string]func(proxy *redistest.Proxy, struck, given chan struct{}){
		"ReplyLost": func(proxy *redistest.Proxy, struck, _ chan struct{}) {
			proxy.OnRequest(func(order int, _ []string) {
				if order == 1 {
					close(struck)
				}
			})
			proxy.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
		},
		"RequestLate": func(proxy *redistest.Proxy, struck, given chan struct{}) {
			proxy.OnRequest(func(order int, _ []string) {
				if order == 1 {
					close(struck)
					<-given
				}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			mu := reentrant.New(locktest.SteadySession(t, proxy), "a")
			require.NoError(t, locktest.Must(t, mu.Lock).Unlock())
			matchAcquires(proxy)
			struck, given := make(chan struct{}), make(chan struct{})
			strike(proxy, struck, given)
			ctx, cancel := context.WithCancel(t.Context())
			trying := locktest.LaterWith(ctx, mu.TryLock)
			redistest.Receive(t, "the fault", struck)
			cancel()
			require.Error(t, locktest.MustFail(t, trying))
			close(given)
			lease := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
			require.NoError(t, lease.Unlock())
			redistest.Await(t, "a free lock", func() bool { return !isHeld(t, server, "a") })
		})
	}
}

// P5: a Lock whose reply was lost is held once: one Unlock frees it.
func TestALockWhoseReplyWasLostIsHeldOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	lease := locksWithoutReply(t, proxy, reentrant.New(locktest.SteadySession(t, proxy), "a"))
	require.Equal(t, lease.Token(), requireHolder(t, reentrant.New(locktest.SteadySession(t, server), "a")).Token)
	require.NoError(t, lease.Unlock())
	redistest.Await(t, "a free lock", func() bool { return !isHeld(t, server, "a") })
}
