// SPDX-License-Identifier: Apache-2.0

package hold

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
)

func TestLostHoldEndsAllItsEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, first := begin(t, "key")
		second := again(t, first)
		gone := again(t, first)
		require.NoError(t, gone.Unlock())
		b.Term.Break(errs.ErrMaxHold, true)
		for range 2 {
			for _, l := range []Lease{first, second} {
				require.Equal(t, errs.ErrMaxHold, l.Err())
				require.Equal(t, errs.ErrMaxHold, l.Unlock(), "also the second time")
				_, err := l.Reenter()
				require.Equal(t, errs.ErrMaxHold, err)
				require.True(t, isClosed(l.Done()))
				require.Equal(t, errs.ErrMaxHold, context.Cause(l.Bind(t.Context())))
			}
			require.Equal(t, errs.ErrReleased, gone.Err(), "it had ended before")
			require.Equal(t, errs.ErrNotHeld, gone.Unlock())
		}
		require.Equal(t, []error{errs.ErrMaxHold}, b.owner.mu.lost, "notified once")
		require.True(t, b.owner.mu.gone)
		require.True(t, b.owner.mu.leased)
		require.Zero(t, b.owner.mu.released)
	})
}

// P8: a hold that is lost after its last lease was unlocked, while the server is asked about it, had no holder.
func TestHoldWithoutALeaseIsNotLostByACaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(t, "key")
		b.owner.mu.leased = true
		b.owner.onEnd(func() {
			b.owner.onEnd(nil)
			b.Term.Gone()
		})
		require.NoError(t, l.Unlock())
		require.Equal(t, []error{errs.ErrLostGone}, b.owner.mu.lost)
		require.False(t, b.owner.mu.leased)
	})
}

// Close logs the leases that the program forgot. A lease that was unlocked is not one of them, even
// while its hold is being released.
func TestEvictEndsNoLeaseOfAHoldThatIsReleased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, l := begin(t, "key")
		_, evicted := b.Evict(errs.ErrClosed)
		require.True(t, evicted)
		_, evicted = b.Evict(errs.ErrClosed)
		require.False(t, evicted, "it had ended")
		require.Equal(t, errs.ErrClosed, l.Unlock())

		b, l = begin(t, "key")
		b.owner.onEnd(func() {
			b.owner.onEnd(nil)
			_, evicted = b.Evict(errs.ErrClosed)
		})
		evicted = true
		require.NoError(t, l.Unlock())
		require.False(t, evicted)
		require.Equal(t, []error{errs.ErrClosed}, b.owner.mu.lost, "it ends all the same")
	})
}

// P2: dead timers simulate a process that was stopped and has not run them yet.
func TestFirstCheckFindsTheLossWithoutTimers(t *testing.T) {
	t.Parallel()
	for name, check := range map[string]func(t *testing.T, l Lease, bound context.Context) error{
		"Err":    func(_ *testing.T, l Lease, _ context.Context) error { return l.Err() },
		"Unlock": func(_ *testing.T, l Lease, _ context.Context) error { return l.Unlock() },
		"Again": func(_ *testing.T, l Lease, _ context.Context) error {
			_, err := l.Reenter()
			return err
		},
		"Done": func(t *testing.T, l Lease, _ context.Context) error {
			require.True(t, isClosed(l.Done()))
			return l.Err()
		},
		"Bind": func(t *testing.T, l Lease, _ context.Context) error { return context.Cause(l.Bind(t.Context())) },
		"Context": func(t *testing.T, _ Lease, bound context.Context) error {
			require.Equal(t, context.Canceled, bound.Err())
			require.True(t, isClosed(bound.Done()), "looking ended it")
			return context.Cause(bound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, l := begin(t, "key")
				b.timers.Close()
				bound := l.Bind(t.Context())
				child, cancel := context.WithCancel(bound)
				defer cancel()
				time.Sleep(life)
				synctest.Wait()
				require.Empty(t, b.owner.mu.lost, "no caller has checked yet")
				require.Equal(t, errs.ErrLostLate, check(t, l, bound))
				synctest.Wait()
				require.Equal(t, []error{errs.ErrLostLate}, b.owner.mu.lost)
				require.Equal(t, context.Canceled, child.Err())
				require.Equal(t, errs.ErrLostLate, context.Cause(child))
			})
		})
	}
}

func TestBoundContextsEndBeforeTheOwnerIsNotified(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(b *fixture, l Lease){
		"Released": func(_ *fixture, l Lease) { _ = l.Unlock() },
		"Lost":     func(b *fixture, _ Lease) { b.Term.Break(errs.ErrLost, false) },
		"Expired":  func(*fixture, Lease) { time.Sleep(life) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b, l := begin(t, "key")
				bound, done := l.Enter(t.Context()), l.Done()
				child, cancel := context.WithTimeout(bound, time.Hour)
				defer cancel()
				causes := make(chan bool, 1)
				b.owner.onEnd(func() {
					causes <- isClosed(bound.Done()) && isClosed(done) && isClosed(child.Done()) && bound.Err() != nil && child.Err() != nil
				})
				end(b, l)
				require.True(t, <-causes)
			})
		})
	}
}

func TestDeadlineOfAnEndedLeaseIsNotAhead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, first := begin(t, "key")
		second := again(t, first)
		require.NoError(t, first.Unlock())
		require.Zero(t, first.Deadline())
		require.True(t, second.Deadline().After(time.Now()))
		b.Term.Break(errs.ErrLost, true)
		require.Equal(t, time.Now(), second.Deadline(), "when it was lost, not when it would have been")
		_ = second.Unlock()
		require.False(t, second.Deadline().After(time.Now()))
		require.False(t, second.Deadline().IsZero(), "it was not released")
	})
}
