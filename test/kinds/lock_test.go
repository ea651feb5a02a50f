// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P3: a holder is alone, and has a greater token than every holder before.
func TestHoldersOfOneNameDoNotOverlap(t *testing.T) {
	t.Parallel()
	each(t, exclusive, func(f *fixture) {
		const sessions, goroutines, rounds = 4, 4, 20
		var inside atomic.Int32
		var last uint64 // guarded by the lock under test
		var all sync.WaitGroup
		for range sessions {
			mu := f.lock()
			for range goroutines {
				all.Go(func() {
					for range rounds {
						err := mu.Do(f.Context(), func(_ context.Context, lease signalbox.Lease) error {
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
							f.Error(err)
							return
						}
					}
				})
			}
		}
		all.Wait()
		require.Zero(f, f.tickets())
		keys := f.server.Keys("*" + f.name + "*")
		for _, key := range keys {
			require.Positive(f, locktest.Integer(f, f.server.MustDo(f, "PTTL", key)), "%s has no end", key)
		}
		if !native(f.lockKind) {
			require.Empty(f, keys)
		}
	})
}

// P6: a release notifies the next waiter of another session, long before it would poll.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		proxy := redistest.NewProxy(f, f.server.Addr())
		if f.poll != nil {
			proxy.SetMatch(locktest.RunsScript(f.poll))
		}
		session := locktest.Session(f, proxy)
		holder, mu := f.against(), f.in(session)
		redistest.Await(f, "a grant by message, and no poll", func() bool {
			lease := f.must(holder)
			require.ErrorIs(f, second(mu.TryLock(f.Context())), signalbox.ErrHeld)
			waiting := f.wait(f.Context(), mu, 1)
			if f.poll != nil {
				redistest.Await(f, "a subscription", func() bool {
					return locktest.Listeners(f, f.server, names.Grants(names.DefaultPrefix)+session.ID()) == 1
				})
			}
			before := proxy.Requests()
			require.NoError(f, lease.Unlock())
			next := locktest.MustHave(f, waiting)
			require.Greater(f, next.Token(), lease.Token())
			require.NoError(f, next.Unlock())
			return f.poll == nil || proxy.Requests() == before
		})
	})
}

// P1: locks of one name in one session are the same lock.
func TestLocksOfOneNameInOneSessionAreOneLock(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(f *fixture) {
		session := f.session()
		one, other := f.in(session), f.in(session)
		lease := f.must(one)
		if exclusive(f.lockKind) {
			require.ErrorIs(f, second(other.TryLock(f.Context())), signalbox.ErrHeld)
		}
		again := f.again(other, lease)
		require.Equal(f, lease.Token(), again.Token())
		require.NoError(f, lease.Unlock())
		require.NoError(f, again.Unlock())
	})
}

// P10: an error says what was asked of which lock.
func TestTryLockReturnsErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		holder := f.must(f.against())
		lease, err := f.lock().TryLock(f.Context())
		require.ErrorIs(f, err, signalbox.ErrHeld)
		var op *signalbox.OpError
		require.ErrorAs(f, err, &op)
		require.Equal(f, "try "+f.op, op.Op)
		require.Equal(f, f.name, op.Name)
		require.EqualError(f, err, fmt.Sprintf("signalbox: try %s %q: the lock is held", f.op, f.name))
		require.Equal(f, signalbox.Lease{}, lease)
		require.NoError(f, holder.Unlock())
	})
}

func TestTryLockTakesAFreeLock(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu := f.lock()
		for range 3 {
			lease, err := mu.TryLock(f.Context())
			require.NoError(f, err)
			require.True(f, f.isHeld())
			require.NoError(f, lease.Unlock())
			require.False(f, f.isHeld())
		}
	})
}

// P7: TryLock sends nothing while its session holds the lock, or waits for it.
func TestTryLockSendsNothingWhileItsSessionHoldsOrWaits(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, exclusive, func(f *fixture) {
		holder := f.in(f.session(signalbox.WithPolling()), signalbox.WithRenewedLease(longest))
		lease := f.must(holder)
		if f.enters { // a semaphore has to ask whether there are more permits
			require.Empty(f, f.server.SentBy(func() {
				require.ErrorIs(f, second(holder.TryLock(f.Context())), signalbox.ErrHeld)
			}))
		}
		if f.poll != nil {
			proxy := redistest.NewProxy(f, f.server.Addr())
			mu := f.in(locktest.Session(f, proxy))
			waiting := f.wait(f.Context(), mu, 1)
			proxy.SetMatch(locktest.RunsScript(f.enter))
			redistest.Await(f, "a session that knows of its ticket", func() bool {
				proxy.ResetCount()
				require.ErrorIs(f, second(mu.TryLock(f.Context())), signalbox.ErrHeld)
				return proxy.Requests() == 0
			})
			defer func() { require.NoError(f, locktest.MustHave(f, waiting).Unlock()) }()
		}
		require.NoError(f, lease.Unlock())
	})
}

// P4: an ended context acquires nothing and sends nothing. So it is for readers that could enter without the server, and
// for a holder that would enter again.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, everyKind, func(f *fixture) {
		mu := f.in(f.session(signalbox.WithPolling()), signalbox.WithRenewedLease(longest))
		require.NoError(f, f.must(mu).Unlock())
		held := f.must(mu)
		stopped := errors.New("the request was dropped")
		free := of(f.Primitive, f.session(signalbox.WithPolling()), f.name+"/free")
		for _, c := range []struct {
			mu     anyLock
			parent context.Context
		}{{mu, f.Context()}, {mu, held.Enter(f.Context())}, {free, f.Context()}} {
			ctx, cancel := context.WithCancelCause(c.parent)
			cancel(stopped)
			require.Empty(f, f.server.SentBy(func() {
				for call, err := range refusals(f.T, c.mu, ctx, held) {
					require.ErrorIs(f, err, context.Canceled, call)
					require.ErrorIs(f, err, stopped, call)
					require.NotErrorIs(f, err, signalbox.ErrHeld, call)
				}
			}))
		}
		require.NoError(f, held.Unlock())
	})
}
