// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/rwlock"
)

// A call beyond the limit returns ErrBusy at once and sends nothing. A waiter that leaves lets another one wait.
func TestMaxWaiters_Reached_ErrBusyAtOnce(t *testing.T) {
	t.Parallel()
	terms := map[string][]signalbox.LockOption{
		"Shared": {}, "Fixed": {signalbox.WithFixedLease(time.Hour)}, "Redisson": {signalbox.WithLayout(redisson.Layout())},
	}
	for _, kind := range append(locktest.Primitives(), locktest.Reader()) {
		for term, options := range terms {
			t.Run(kind.Name+term, func(t *testing.T) {
				t.Parallel()
				bubble(t, func(f *fixture) { f.reachesMaxWaiters(f.T, kind, options) })
			})
		}
	}
}

func (f *fixture) reachesMaxWaiters(t *testing.T, kind locktest.Primitive, options []signalbox.LockOption) {
	t.Helper()
	var defaults []signalbox.SessionOption
	if len(options) > 0 {
		defaults = append(defaults, signalbox.WithDefaults(options...))
	}
	holding, _, closeHolding := f.session(t, defaults...)
	defer closeHolding()
	s, _, closeAll := f.session(t, defaults...)
	defer closeAll()
	excludes := kind.New(holding, "a")
	if _, reads := excludes.(locktest.ReadLocker); reads {
		excludes = rwlock.New(holding, "a")
	}
	held := atOnce(t, excludes)
	lock := kind.New(s, "a", signalbox.WithMaxWaiters(2))
	ctx, cancel := context.WithCancel(t.Context())
	first, second := queued(ctx, lock), queued(t.Context(), lock)
	time.Sleep(100 * time.Millisecond) // both are waiting at the server, or behind one that is
	requireBusy := func() {
		synctest.Wait()
		sent, now := f.commands.Load(), time.Now()
		_, err := lock.Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrBusy)
		require.NotErrorIs(t, err, signalbox.ErrHeld)
		require.Equal(t, now, time.Now())
		require.Equal(t, sent, f.commands.Load(), "it asked the server")
	}
	requireBusy()
	_, err := lock.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	cancel()
	require.ErrorIs(t, (<-first).err, context.Canceled)
	third := queued(t.Context(), lock)
	time.Sleep(100 * time.Millisecond)
	requireBusy()
	require.NoError(t, held.Unlock())
	for _, waiter := range []<-chan lockResult{second, third} {
		require.NoError(t, granted(t, waiter).Unlock())
	}
	require.NoError(t, atOnce(t, lock).Unlock())
}

// The session's own tickets say how many goroutines wait for them, and other sessions' do not.
func TestWaiters_OwnSession_CountsGoroutines(t *testing.T) {
	t.Parallel()
	bubble(t, func(f *fixture) {
		holding, _, closeHolding := f.session(f.T)
		defer closeHolding()
		s, _, closeAll := f.session(f.T)
		defer closeAll()
		held := atOnce(f.T, reentrant.New(holding, "a"))
		ctx, cancel := context.WithCancel(f.Context())
		var waiting []<-chan lockResult
		for _, lock := range []locktest.Lock{
			reentrant.New(s, "a"), reentrant.New(s, "a"), reentrant.New(s, "a"), // one ticket
			fair.New(s, "a"), fair.New(s, "a"), // one each
			reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)), reentrant.New(s, "a", signalbox.WithRenewedLease(time.Minute)),
		} {
			waiting = append(waiting, queued(ctx, lock))
			time.Sleep(time.Millisecond)
		}
		counts := func(s *signalbox.Session) (counts []int) {
			for waiter, err := range fair.New(s, "a").Waiters(f.Context()) {
				require.NoError(f, err)
				counts = append(counts, waiter.Goroutines)
			}
			return counts
		}
		require.Equal(f, []int{3, 1, 1, 2}, counts(s))
		require.Equal(f, []int{0, 0, 0, 0}, counts(holding))
		cancel()
		for _, waiter := range waiting {
			require.ErrorIs(f, (<-waiter).err, context.Canceled)
		}
		require.NoError(f, held.Unlock())
	})
}
