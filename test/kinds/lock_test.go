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
	each(t, exclusive, func(s *fixture) {
		const sessions, goroutines, rounds = 4, 4, 20
		var inside atomic.Int32
		var last uint64 // guarded by the lock under test
		var all sync.WaitGroup
		for range sessions {
			mu := s.lock()
			for range goroutines {
				all.Go(func() {
					for range rounds {
						err := mu.Do(s.Context(), func(_ context.Context, lease signalbox.Lease) error {
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
							s.Error(err)
							return
						}
					}
				})
			}
		}
		all.Wait()
		require.Zero(s, s.tickets())
		keys := s.server.Keys("*" + s.name + "*")
		for _, key := range keys {
			require.Positive(s, locktest.Integer(s, s.server.MustDo(s, "PTTL", key)), "%s has no end", key)
		}
		if !native(s.lockKind) {
			require.Empty(s, keys)
		}
	})
}

// P6: a release notifies the next waiter of another session, long before it would poll.
func TestALockIsTakenAsSoonAsItIsReleasedElsewhere(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		proxy := redistest.NewProxy(s, s.server.Addr())
		if s.poll != nil {
			proxy.SetMatch(locktest.RunsScript(s.poll))
		}
		session := locktest.Session(s, proxy)
		holder, mu := s.against(), s.in(session)
		redistest.Await(s, "a grant by message, and no poll", func() bool {
			lease := s.must(holder)
			require.ErrorIs(s, second(mu.TryLock(s.Context())), signalbox.ErrHeld)
			waiting := s.wait(s.Context(), mu, 1)
			if s.poll != nil {
				redistest.Await(s, "a subscription", func() bool {
					return locktest.Listeners(s, s.server, names.Grants(names.DefaultPrefix)+session.ID()) == 1
				})
			}
			before := proxy.Requests()
			require.NoError(s, lease.Unlock())
			next := locktest.MustHave(s, waiting)
			require.Greater(s, next.Token(), lease.Token())
			require.NoError(s, next.Unlock())
			return s.poll == nil || proxy.Requests() == before
		})
	})
}

// P1: locks of one name in one session are the same lock.
func TestLocksOfOneNameInOneSessionAreOneLock(t *testing.T) {
	t.Parallel()
	each(t, reentrant, func(s *fixture) {
		session := s.session()
		one, other := s.in(session), s.in(session)
		lease := s.must(one)
		if exclusive(s.lockKind) {
			require.ErrorIs(s, second(other.TryLock(s.Context())), signalbox.ErrHeld)
		}
		again := s.again(other, lease)
		require.Equal(s, lease.Token(), again.Token())
		require.NoError(s, lease.Unlock())
		require.NoError(s, again.Unlock())
	})
}

// P10: an error says what was asked of which lock.
func TestTryLockReturnsErrHeldWithTheNameAndTheOperation(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		holder := s.must(s.against())
		lease, err := s.lock().TryLock(s.Context())
		require.ErrorIs(s, err, signalbox.ErrHeld)
		var op *signalbox.OpError
		require.ErrorAs(s, err, &op)
		require.Equal(s, "try "+s.op, op.Op)
		require.Equal(s, s.name, op.Name)
		require.EqualError(s, err, fmt.Sprintf("signalbox: try %s %q: the lock is held", s.op, s.name))
		require.Equal(s, signalbox.Lease{}, lease)
		require.NoError(s, holder.Unlock())
	})
}

func TestTryLockTakesAFreeLock(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		mu := s.lock()
		for range 3 {
			lease, err := mu.TryLock(s.Context())
			require.NoError(s, err)
			require.True(s, s.isHeld())
			require.NoError(s, lease.Unlock())
			require.False(s, s.isHeld())
		}
	})
}

// P7: TryLock sends nothing while its session holds the lock, or waits for it.
func TestTryLockSendsNothingWhileItsSessionHoldsOrWaits(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, exclusive, func(s *fixture) {
		holder := s.in(s.session(signalbox.WithPolling()), signalbox.WithRenewedLease(longest))
		lease := s.must(holder)
		if s.enters { // a semaphore has to ask whether there are more permits
			require.Empty(s, s.server.SentBy(func() {
				require.ErrorIs(s, second(holder.TryLock(s.Context())), signalbox.ErrHeld)
			}))
		}
		if s.poll != nil {
			proxy := redistest.NewProxy(s, s.server.Addr())
			mu := s.in(locktest.Session(s, proxy))
			waiting := s.wait(s.Context(), mu, 1)
			proxy.SetMatch(locktest.RunsScript(s.enter))
			redistest.Await(s, "a session that knows of its ticket", func() bool {
				proxy.ResetCount()
				require.ErrorIs(s, second(mu.TryLock(s.Context())), signalbox.ErrHeld)
				return proxy.Requests() == 0
			})
			defer func() { require.NoError(s, locktest.MustHave(s, waiting).Unlock()) }()
		}
		require.NoError(s, lease.Unlock())
	})
}

// P4: an ended context acquires nothing and sends nothing. So it is for readers that could enter without the server, and
// for a holder that would enter again.
func TestAnEndedContextAcquiresNothingAndSendsNothing(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, everyKind, func(s *fixture) {
		mu := s.in(s.session(signalbox.WithPolling()), signalbox.WithRenewedLease(longest))
		require.NoError(s, s.must(mu).Unlock())
		held := s.must(mu)
		stopped := errors.New("the request was dropped")
		free := of(s.Primitive, s.session(signalbox.WithPolling()), s.name+"/free")
		for _, c := range []struct {
			mu     anyLock
			parent context.Context
		}{{mu, s.Context()}, {mu, held.Enter(s.Context())}, {free, s.Context()}} {
			ctx, cancel := context.WithCancelCause(c.parent)
			cancel(stopped)
			require.Empty(s, s.server.SentBy(func() {
				for call, err := range refusals(s.T, c.mu, ctx, held) {
					require.ErrorIs(s, err, context.Canceled, call)
					require.ErrorIs(s, err, stopped, call)
					require.NotErrorIs(s, err, signalbox.ErrHeld, call)
				}
			}))
		}
		require.NoError(s, held.Unlock())
	})
}
