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
func (f *fixture) locker(ctx context.Context, mu anyLock) *signalbox.Locker {
	f.Helper()
	has, _ := mu.(hasLocker)
	return has.Locker(ctx)
}

// P1: goroutines that share a Locker, and those with other Lockers of the name, exclude each other, and hold the lock. A
// reader's Locker keeps writers out.
func TestALockerExcludesGoroutines(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(f *fixture) {
		shared, elsewhere := f.locker(f.Context(), f.against()), f.locker(f.Context(), f.against())
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
					if !f.isHeld() {
						f.Error("not held")
					}
					locker.Unlock()
				}
			})
		}
		own := f.locker(f.Context(), f.lock())
		goroutines.Go(func() {
			for range 5 {
				own.Lock()
				seen = max(seen, count)
				own.Unlock()
			}
		})
		goroutines.Wait()
		require.Equal(f, 8*10, count)
		require.LessOrEqual(f, seen, count)
		require.False(f, f.isHeld())
	})
}

// P2: the error of Unlock goes to OnLost.
func TestALockerReportsALoss(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(f *fixture) {
		locker := f.locker(f.Context(), f.lock())
		var lost error
		locker.OnLost(func(err error) { lost = err })
		locker.Lock()
		f.server.MustDo(f, "DEL", f.key())
		locker.Unlock()
		require.ErrorIs(f, lost, signalbox.ErrLost)
	})
}

// P8: a Locker that cannot lock, or that is not locked, panics.
func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	each(t, lockered, func(f *fixture) {
		session := f.session()
		locker := f.locker(f.Context(), f.in(session))
		require.ErrorIs(f, locktest.PanicOf(locker.Unlock), signalbox.ErrNotHeld)
		locker.Lock()
		require.True(f, f.isHeld())
		locker.Unlock()
		require.ErrorIs(f, locktest.PanicOf(locker.Unlock), signalbox.ErrNotHeld)

		closed := signalbox.NewSession(f.server.Client(f, signalbox.Tune))
		require.NoError(f, closed.Close(f.Context()))
		var none context.Context
		for name, misuse := range map[string]struct {
			locker *signalbox.Locker
			want   error
		}{
			"BadName":       {f.locker(f.Context(), of(f.Primitive, session, "")), signalbox.ErrBadName},
			"BadOption":     {f.locker(f.Context(), f.in(session, signalbox.WithFixedLease(0))), signalbox.ErrBadOption},
			"NilContext":    {f.locker(none, f.in(session)), signalbox.ErrBadOption},
			"EndedContext":  {f.locker(locktest.Ended(), f.in(session)), context.Canceled},
			"ClosedSession": {f.locker(f.Context(), f.in(closed)), signalbox.ErrClosed},
			"NilSession":    {f.locker(f.Context(), f.in(nil)), signalbox.ErrBadOption},
			"WrongKind":     {locker, signalbox.ErrWrongKind},
		} {
			if name == "WrongKind" {
				f.server.MustDo(f, "DEL", f.key())
				f.server.MustDo(f, "RPUSH", f.key(), "x")
			}
			for range 2 { // the first panic left nothing locked
				require.ErrorIs(f, locktest.PanicOf(misuse.locker.Lock), misuse.want, name)
			}
			require.ErrorIs(f, locktest.PanicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
			f.server.MustDo(f, "DEL", f.key()) // else Close waits a second for withdrawals that are refused
		}
	})
}

// P8: a sync.Locker has no owner, so it never enters again.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	each(t, func(k lockKind) bool { return lockered(k) && exclusive(k) }, func(f *fixture) {
		mu := f.lock()
		lease := f.must(mu)
		ctx := locktest.Watch(context.WithoutCancel(lease.Enter(f.Context())))
		locker := f.locker(ctx, mu)
		locked := make(chan struct{})
		go func() {
			locker.Lock()
			close(locked)
		}()
		redistest.Receive(f, "a ticket in the queue", ctx.Waiting)
		require.False(f, locktest.IsClosed(locked))
		require.NoError(f, lease.Unlock())
		redistest.Receive(f, "the lock", locked)
		require.True(f, f.isHeld())
		locker.Unlock()
		require.False(f, f.isHeld())
	})
}

// P1: Do holds the lock while its function runs, whose context carries the lease and ends with it. The error is the
// function's alone.
func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu := f.lock()
		failed := errors.New("no funds")
		var inside context.Context
		err := mu.Do(f.Context(), func(ctx context.Context, lease signalbox.Lease) error {
			inside = ctx
			require.NoError(f, ctx.Err())
			require.NoError(f, lease.Err())
			require.NotZero(f, lease.Token())
			require.True(f, f.isHeld())
			if exclusive(f.lockKind) {
				require.ErrorIs(f, second(mu.TryLock(f.Context())), signalbox.ErrHeld)
			}
			if f.enters {
				require.NoError(f, mu.Do(ctx, func(_ context.Context, again signalbox.Lease) error {
					require.Equal(f, lease.Token(), again.Token())
					return nil
				}))
			}
			require.True(f, f.isHeld())
			return failed
		})
		require.ErrorIs(f, err, failed)
		require.EqualError(f, err, "no funds")
		require.False(f, f.isHeld())
		require.ErrorIs(f, context.Cause(inside), signalbox.ErrReleased)
	})
}

// P4: a panic of its function, or the end of its goroutine, gives the lock to the next waiter. The panic continues.
func TestDoReleasesTheLockWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu, other := f.lock(), f.against()
		var waiting pendingLock
		require.PanicsWithValue(f, "no funds", func() {
			_ = mu.Do(f.Context(), func(context.Context, signalbox.Lease) error {
				waiting = f.wait(f.Context(), other, 1)
				panic("no funds")
			})
		})
		lease := locktest.MustHave(f, waiting)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = mu.Do(f.Context(), func(context.Context, signalbox.Lease) error {
				runtime.Goexit()
				return nil
			})
		}()
		redistest.Await(f, "a ticket in the queue", func() bool { return f.waits(1) })
		require.NoError(f, lease.Unlock())
		redistest.Receive(f, "the end of the goroutine", ended)
		require.False(f, f.isHeld())
	})
}

// P4: a function that does not get the lock does not run.
func TestDoRunsNothingWithoutTheLock(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		lease := f.must(f.against())
		ctx, cancel := context.WithCancel(f.Context())
		done := f.wait(ctx, doLocker{f.lock(), func() { f.Error("the function ran without the lock") }}, 1)
		cancel()
		require.ErrorIs(f, locktest.MustFail(f, done), context.Canceled)
		require.NoError(f, lease.Unlock())
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
	each(t, everyKind, func(f *fixture) {
		err := f.lock().Do(f.Context(), func(_ context.Context, lease signalbox.Lease) error { return lease.Unlock() })
		require.ErrorIs(f, err, signalbox.ErrNotHeld)
		require.False(f, f.isHeld())
	})
}

// P2: Do returns the loss of its lease, joined with the error of its function.
func TestDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	each(t, forcible, func(f *fixture) {
		mu := f.lock()
		forced, _ := mu.(forceUnlocker)
		failed := errors.New("no funds")
		for _, own := range []error{nil, failed} {
			err := mu.Do(f.Context(), func(ctx context.Context, _ signalbox.Lease) error {
				require.NoError(f, forced.ForceUnlock(f.Context()))
				redistest.Receive(f, "the end of the context", ctx.Done())
				require.ErrorIs(f, context.Cause(ctx), signalbox.ErrLost)
				return own
			})
			require.ErrorIs(f, err, signalbox.ErrLost)
			if own != nil {
				require.ErrorIs(f, err, own)
			}
			var op *signalbox.OpError
			require.ErrorAs(f, err, &op)
			require.Equal(f, "unlock", op.Op)
		}
	})
}
