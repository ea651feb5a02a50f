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
	server := redistest.Start(t)
	here, there := newLock(t, server, "a"), newLock(t, server, "a")
	shared, elsewhere := here.Locker(t.Context()), there.Locker(t.Context())
	count, seen := 0, 0
	var goroutines sync.WaitGroup
	for i := range 8 {
		var locker sync.Locker = shared
		if i%4 == 0 {
			locker = elsewhere
		}
		goroutines.Go(func() {
			for range 15 {
				locker.Lock()
				count++
				locker.Unlock()
			}
		})
	}
	reader := there.RLocker(t.Context())
	goroutines.Go(func() {
		for range 15 {
			reader.Lock()
			seen = max(seen, count)
			reader.Unlock()
		}
	})
	goroutines.Wait()
	require.Equal(t, 8*15, count)
	require.LessOrEqual(t, seen, count)
	require.False(t, isHeld(t, server, "a"))
}

// Goroutines that share an RLocker exclude each other, those with one each read beside each other.
func TestAnRLockerReadsBesideOthersButNotBesideItself(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	one, other := mu.RLocker(t.Context()), mu.RLocker(t.Context())
	one.Lock()
	other.Lock() // would not return
	again := make(chan struct{})
	go func() {
		one.Lock()
		close(again)
	}()
	require.ErrorIs(t, second(newLock(t, server, "a").TryLock(t.Context())), signalbox.ErrHeld)
	require.False(t, isClosed(again))
	one.Unlock()
	within(t, "the next of the goroutines that share it", again)
	one.Unlock()
	other.Unlock()
	require.False(t, isHeld(t, server, "a"))
}

// P2: what Unlock cannot answer goes to OnLost.
func TestALockerTellsOfALoss(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	for _, locker := range []*signalbox.Locker{mu.Locker(t.Context()), mu.RLocker(t.Context())} {
		var told error
		locker.OnLost(func(err error) { told = err })
		locker.Lock()
		server.MustDo(t, "DEL", holderKey("a"))
		locker.Unlock()
		require.ErrorIs(t, told, signalbox.ErrLost)
	}
}

func TestALockerPanicsForMisuse(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	server.MustDo(t, "RPUSH", holderKey("list"), "x")
	for name, misuse := range map[string]struct {
		locker *signalbox.Locker
		want   error
	}{
		"EndedContext":  {rwlock.New(s, "a").Locker(endedContext()), context.Canceled},
		"WrongKind":     {rwlock.New(s, "list").Locker(t.Context()), signalbox.ErrWrongKind},
		"REndedContext": {rwlock.New(s, "a").RLocker(endedContext()), context.Canceled},
		"RWrongKind":    {rwlock.New(s, "list").RLocker(t.Context()), signalbox.ErrWrongKind},
	} {
		for range 2 { // the first panic left nothing locked
			require.ErrorIs(t, panicOf(misuse.locker.Lock), misuse.want, name)
		}
		require.ErrorIs(t, panicOf(misuse.locker.Unlock), signalbox.ErrNotHeld, name)
	}
}

// A Locker leaves carried leases aside: it waits, also for the reader or writer that its context names.
func TestALockerLeavesCarriedLeasesAside(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	lease := must(t, mu, read)
	locker := mu.Locker(lease.Enter(t.Context()))
	locked := make(chan error, 1)
	go func() { locked <- panicOf(locker.Lock) }()
	await(t, "a place in line, and no ErrUpgrade", func() bool { return inLine(t, server, "a") == 1 })
	_ = lease.Unlock() // and with it the Locker's context ends
	if within(t, "the end of the Locker", locked) == nil {
		locker.Unlock()
	}
	awaitFree(t, server, "a")
}

func TestDoHoldsTheLockWhileItsFunctionRuns(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	failed := errors.New("no funds")
	for _, do := range []func(context.Context, func(context.Context, signalbox.Lease) error) error{mu.Do, mu.RDo} {
		var inside context.Context
		err := do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
			inside = ctx
			require.NoError(t, lease.Err())
			require.True(t, isHeld(t, server, "a"))
			require.NoError(t, mu.RDo(ctx, func(_ context.Context, again signalbox.Lease) error {
				require.Equal(t, lease.Token(), again.Token())
				return nil
			}))
			return failed
		})
		require.EqualError(t, err, "no funds")
		require.False(t, isHeld(t, server, "a"))
		require.ErrorIs(t, context.Cause(inside), signalbox.ErrReleased)
	}
}

// P4: a panic gives the lock to the next, and goes on; so does the end of the goroutine.
func TestDoGivesBackWhateverItsFunctionDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu, other := newLock(t, server, "a"), newLock(t, server, "a")
	for _, do := range []func(context.Context, func(context.Context, signalbox.Lease) error) error{mu.Do, mu.RDo} {
		var waiting <-chan outcome
		require.PanicsWithValue(t, "no funds", func() {
			_ = do(t.Context(), func(context.Context, signalbox.Lease) error {
				waiting = queue(t.Context(), t, server, other, write, 1)
				panic("no funds")
			})
		})
		lease := mustHave(t, waiting)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = do(t.Context(), func(context.Context, signalbox.Lease) error {
				runtime.Goexit()
				return nil
			})
		}()
		await(t, "a place in line", func() bool { return inLine(t, server, "a") == 1 })
		require.NoError(t, lease.Unlock())
		within(t, "the end of the goroutine", ended)
		require.False(t, isHeld(t, server, "a"))
		require.Zero(t, mu.Rooms())
	}
}

// P2: work that was not protected to its end says so, beside its own error; also where it was downgraded.
func TestDoJoinsTheLossOfItsLease(t *testing.T) {
	t.Parallel()
	mu := newLock(t, redistest.Start(t), "a", signalbox.FixedLease(moment))
	failed := errors.New("no funds")
	err := mu.Do(t.Context(), func(ctx context.Context, lease signalbox.Lease) error {
		if err := mu.Downgrade(ctx, lease); err != nil {
			return err
		}
		within(t, "the end of the context", ctx.Done())
		return failed
	})
	require.ErrorIs(t, err, failed)
	require.ErrorIs(t, err, signalbox.ErrLost)
}
