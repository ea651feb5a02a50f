// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// locker returns a Locker of a lock that has one.
func (s *fixture) locker(ctx context.Context, mu anyLock) *signalbox.Locker {
	s.Helper()
	has, _ := mu.(hasLocker)
	return has.Locker(ctx)
}

// P1: goroutines that share a Locker, and those with other Lockers of the name, exclude each other, and hold the lock. A
// reader's Locker keeps writers out.
func TestALockerExcludesGoroutines(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(s *fixture) {
		shared, elsewhere := s.locker(s.Context(), s.against()), s.locker(s.Context(), s.against())
		count, seen := 0, 0
		var goroutines sync.WaitGroup
		for i := range 8 {
			var locker sync.Locker = shared
			if i%4 == 0 {
				locker = elsewhere
			}
			goroutines.Go(func() {
				for range 10 {
					locker.Lock()
					count++
					if !s.isHeld() {
						s.Error("not held")
					}
					locker.Unlock()
				}
			})
		}
		own := s.locker(s.Context(), s.lock())
		goroutines.Go(func() {
			for range 5 {
				own.Lock()
				seen = max(seen, count)
				own.Unlock()
			}
		})
		goroutines.Wait()
		require.Equal(s, 8*10, count)
		require.LessOrEqual(s, seen, count)
		require.False(s, s.isHeld())
	})
}

// P2: the error of Unlock goes to OnLost.
func TestALockerReportsALoss(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(s *fixture) {
		locker := s.locker(s.Context(), s.lock())
		var lost error
		locker.OnLost(func(err error) { lost = err })
		locker.Lock()
		s.server.MustDo(s, "DEL", s.key())
		locker.Unlock()
		require.ErrorIs(s, lost, signalbox.ErrLost)
	})
}

// P8: a Locker that cannot lock, or that is not locked, panics.
func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(s *fixture) {
		session := s.session()
		locker := s.locker(s.Context(), s.in(session))
		require.ErrorIs(s, locktest.PanicOf(locker.Unlock), signalbox.ErrNotHeld)
		locker.Lock()
		require.True(s, s.isHeld())
		locker.Unlock()
		require.ErrorIs(s, locktest.PanicOf(locker.Unlock), signalbox.ErrNotHeld)

		closed := signalbox.NewSession(s.server.Client(s, signalbox.Tune))
		require.NoError(s, closed.Close(s.Context()))
		var none context.Context
		for name, misuse := range map[string]struct {
			locker *signalbox.Locker
			want   error
		}{
			"BadName":       {s.locker(s.Context(), of(s.Primitive, session, "")), signalbox.ErrBadName},
			"BadOption":     {s.locker(s.Context(), s.in(session, signalbox.WithFixedLease(0))), signalbox.ErrBadOption},
			"NilContext":    {s.locker(none, s.in(session)), signalbox.ErrBadOption},
			"EndedContext":  {s.locker(locktest.Ended(), s.in(session)), context.Canceled},
			"ClosedSession": {s.locker(s.Context(), s.in(closed)), signalbox.ErrClosed},
			"NilSession":    {s.locker(s.Context(), s.in(nil)), signalbox.ErrBadOption},
			"WrongKind":     {locker, signalbox.ErrWrongKind},
		} {
			if name == "WrongKind" {
				s.server.MustDo(s, "DEL", s.key())
				s.server.MustDo(s, "RPUSH", s.key(), "x")
			}
			for range 2 { // the first panic left nothing locked
				require.ErrorIs(s, locktest.PanicOf(misuse.locker.Lock), misuse.want, name)
			}
			require.ErrorIs(s, locktest.PanicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
			s.server.MustDo(s, "DEL", s.key()) // else Close waits a second for withdrawals that are refused
		}
	})
}

// P8: a sync.Locker has no owner, so it never enters again.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	each(t, func(k lockKind) bool { return lockered(k) && exclusive(k) }, func(s *fixture) {
		mu := s.lock()
		lease := s.must(mu)
		ctx := locktest.Watch(context.WithoutCancel(lease.Enter(s.Context())))
		locker := s.locker(ctx, mu)
		locked := make(chan struct{})
		go func() {
			locker.Lock()
			close(locked)
		}()
		redistest.Receive(s, "a ticket in the queue", ctx.Waiting)
		require.False(s, locktest.IsClosed(locked))
		require.NoError(s, lease.Unlock())
		redistest.Receive(s, "the lock", locked)
		require.True(s, s.isHeld())
		locker.Unlock()
		require.False(s, s.isHeld())
	})
}

// P1: Do holds the lock while its function runs, whose context carries the lease and ends with it. The error is the
// function's alone.
func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		mu := s.lock()
		failed := errors.New("no funds")
		var inside context.Context
		err := mu.Do(s.Context(), func(ctx context.Context, lease signalbox.Lease) error {
			inside = ctx
			require.NoError(s, ctx.Err())
			require.NoError(s, lease.Err())
			require.NotZero(s, lease.Token())
			require.True(s, s.isHeld())
			if exclusive(s.lockKind) {
				require.ErrorIs(s, second(mu.TryLock(s.Context())), signalbox.ErrHeld)
			}
			if s.enters {
				require.NoError(s, mu.Do(ctx, func(_ context.Context, again signalbox.Lease) error {
					require.Equal(s, lease.Token(), again.Token())
					return nil
				}))
			}
			require.True(s, s.isHeld())
			return failed
		})
		require.ErrorIs(s, err, failed)
		require.EqualError(s, err, "no funds")
		require.False(s, s.isHeld())
		require.ErrorIs(s, context.Cause(inside), signalbox.ErrReleased)
	})
}

// P4: a panic of its function, or the end of its goroutine, gives the lock to the next waiter. The panic continues.
func TestDoReleasesTheLockWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		mu, other := s.lock(), s.against()
		var waiting pendingLock
		require.PanicsWithValue(s, "no funds", func() {
			_ = mu.Do(s.Context(), func(context.Context, signalbox.Lease) error {
				waiting = s.wait(s.Context(), other, 1)
				panic("no funds")
			})
		})
		lease := locktest.MustHave(s, waiting)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = mu.Do(s.Context(), func(context.Context, signalbox.Lease) error {
				runtime.Goexit()
				return nil
			})
		}()
		redistest.Await(s, "a ticket in the queue", func() bool { return s.waits(1) })
		require.NoError(s, lease.Unlock())
		redistest.Receive(s, "the end of the goroutine", ended)
		require.False(s, s.isHeld())
	})
}

// P4: a function that does not get the lock does not run.
func TestDoRunsNothingWithoutTheLock(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		lease := s.must(s.against())
		ctx, cancel := context.WithCancel(s.Context())
		done := s.wait(ctx, doLocker{s.lock(), func() { s.Error("the function ran without the lock") }}, 1)
		cancel()
		require.ErrorIs(s, locktest.MustFail(s, done), context.Canceled)
		require.NoError(s, lease.Unlock())
	})
}

// doLocker is a lock whose Lock is Do.
type doLocker struct {
	anyLock

	run func()
}

// Lock is Do.
func (d doLocker) Lock(ctx context.Context) (signalbox.Lease, error) {
	return signalbox.Lease{}, d.Do(ctx, func(context.Context, signalbox.Lease) error {
		d.run()
		return nil
	})
}

// P8: a lease that the function unlocked itself is ErrNotHeld at the end, which hides nothing.
func TestDoReportsALeaseThatItsFunctionUnlocked(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(s *fixture) {
		err := s.lock().Do(s.Context(), func(_ context.Context, lease signalbox.Lease) error { return lease.Unlock() })
		require.ErrorIs(s, err, signalbox.ErrNotHeld)
		require.False(s, s.isHeld())
	})
}

// P2: Do returns the loss of its lease, joined with the error of its function.
func TestDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	each(t, forcible, func(s *fixture) {
		mu := s.lock()
		forced, _ := mu.(forceUnlocker)
		failed := errors.New("no funds")
		for _, own := range []error{nil, failed} {
			err := mu.Do(s.Context(), func(ctx context.Context, _ signalbox.Lease) error {
				require.NoError(s, forced.ForceUnlock(s.Context()))
				redistest.Receive(s, "the end of the context", ctx.Done())
				require.ErrorIs(s, context.Cause(ctx), signalbox.ErrLost)
				return own
			})
			require.ErrorIs(s, err, signalbox.ErrLost)
			if own != nil {
				require.ErrorIs(s, err, own)
			}
			var op *signalbox.OpError
			require.ErrorAs(s, err, &op)
			require.Equal(s, "unlock", op.Op)
		}
	})
}
