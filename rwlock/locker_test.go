// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// panicOf answers the error that a function panics with, nil if it does not panic.
func panicOf(do func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	do()
	return nil
}

// P1: goroutines that share a Locker, and those with other Lockers of the name, exclude each other; readers with
// Lockers of their own are kept out while one of them writes.
func TestLockersExcludeWritersFromAll(t *testing.T) {
	t.Parallel()
	w := here(t)
	mus := w.locks(3)
	shared, elsewhere := mus[0].Locker(t.Context()), mus[1].Locker(t.Context())
	count, seen := 0, 0
	var goroutines sync.WaitGroup
	for i := range 8 {
		var locker sync.Locker = shared
		if i%4 == 0 {
			locker = elsewhere
		}
		goroutines.Go(func() {
			for range 5 {
				locker.Lock()
				count++
				locker.Unlock()
			}
		})
	}
	reader := mus[2].RLocker(t.Context())
	goroutines.Go(func() {
		for range 5 {
			reader.Lock()
			seen = max(seen, count)
			reader.Unlock()
		}
	})
	goroutines.Wait()
	require.Equal(t, 8*5, count)
	require.LessOrEqual(t, seen, count)
	require.False(t, w.isHeld())
}

// Goroutines that share an RLocker exclude each other, those with one each read beside each other.
func TestAnRLockerReadsBesideOthersButNotBesideItself(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	one, other := mu.RLocker(t.Context()), mu.RLocker(t.Context())
	one.Lock()
	other.Lock() // would not return
	again := make(chan struct{})
	go func() {
		one.Lock()
		close(again)
	}()
	require.ErrorIs(t, second(w.lock().TryLock(t.Context())), signalbox.ErrHeld)
	require.False(t, locktest.IsClosed(again))
	one.Unlock()
	redistest.Receive(t, "the next of the goroutines that share it", again)
	one.Unlock()
	other.Unlock()
	require.False(t, w.isHeld())
}

// P2: what Unlock cannot answer goes to OnLost.
func TestALockerTellsOfALoss(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	for _, locker := range []*signalbox.Locker{mu.Locker(t.Context()), mu.RLocker(t.Context())} {
		var told error
		locker.OnLost(func(err error) { told = err })
		locker.Lock()
		w.server.MustDo(t, "DEL", w.key())
		locker.Unlock()
		require.ErrorIs(t, told, signalbox.ErrLost)
	}
}

func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	w := here(t)
	s := w.session()
	w.server.MustDo(t, "RPUSH", w.of("list").key(), "x")
	for name, misuse := range map[string]struct {
		locker *signalbox.Locker
		want   error
	}{
		"EndedContext":  {rwlock.New(s, w.name).Locker(locktest.Ended()), context.Canceled},
		"WrongKind":     {rwlock.New(s, w.of("list").name).Locker(t.Context()), signalbox.ErrWrongKind},
		"REndedContext": {rwlock.New(s, w.name).RLocker(locktest.Ended()), context.Canceled},
		"RWrongKind":    {rwlock.New(s, w.of("list").name).RLocker(t.Context()), signalbox.ErrWrongKind},
	} {
		for range 2 { // the first panic left nothing locked
			require.ErrorIs(t, panicOf(misuse.locker.Lock), misuse.want, name)
		}
		require.ErrorIs(t, panicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
	}
	w.server.MustDo(t, "DEL", w.of("list").key()) // else Close waits a second for withdrawals that are refused
}

// A Locker leaves carried leases aside: it waits, also for the reader or writer that its context names.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	lease := must(t, mu, read)
	locker := mu.Locker(lease.Enter(t.Context()))
	locked := make(chan error, 1)
	go func() { locked <- panicOf(locker.Lock) }()
	redistest.Await(t, "a place in line, and no ErrUpgrade", func() bool { return w.inLine() == 1 })
	_ = lease.Unlock() // and with it the Locker's context ends
	if redistest.Receive(t, "the end of the Locker", locked) == nil {
		locker.Unlock()
	}
	w.awaitFree()
}

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu := w.lock()
	failed := errors.New("no funds")
	for _, do := range []func(context.Context, func(context.Context, signalbox.Lease) error) error{mu.Do, mu.RDo} {
		var inside context.Context
		err := do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
			inside = ctx
			require.NoError(t, lease.Err())
			require.True(t, w.isHeld())
			require.NoError(t, mu.RDo(ctx, func(_ context.Context, again signalbox.Lease) error {
				require.Equal(t, lease.Token(), again.Token())
				return nil
			}))
			return failed
		})
		require.EqualError(t, err, "no funds")
		require.False(t, w.isHeld())
		require.ErrorIs(t, context.Cause(inside), signalbox.ErrReleased)
	}
}

// P4: a panic gives the lock to the next, and goes on; so does the end of the goroutine.
func TestDoGivesBackWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	w := here(t)
	mu, other := w.lock(), w.lock()
	for _, do := range []func(context.Context, func(context.Context, signalbox.Lease) error) error{mu.Do, mu.RDo} {
		var waiting <-chan result
		require.PanicsWithValue(t, "no funds", func() {
			_ = do(t.Context(), func(context.Context, signalbox.Lease) error {
				waiting = w.queue(t.Context(), other, write, 1)
				panic("no funds")
			})
		})
		lease := locktest.MustHave(t, waiting)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = do(t.Context(), func(context.Context, signalbox.Lease) error {
				runtime.Goexit()
				return nil
			})
		}()
		redistest.Await(t, "a place in line", func() bool { return w.inLine() == 1 })
		require.NoError(t, lease.Unlock())
		redistest.Receive(t, "the end of the goroutine", ended)
		require.False(t, w.isHeld())
		require.Zero(t, mu.Rooms())
	}
}
