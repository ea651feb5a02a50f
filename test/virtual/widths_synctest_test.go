// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P1, P6: whatever a lease is, a waiter waits for its holder, and has the lock when that has left. Servers write a number of one digit and
// many zeros with an exponent, such as that of 100 s in microseconds.
func TestALeaseOfAnyLengthIsWaitedFor(t *testing.T) {
	t.Parallel()
	for _, p := range append(locktest.Primitives(), locktest.Reader()) {
		for _, lease := range []time.Duration{31 * time.Second, 99 * time.Second, 100 * time.Second, 5 * time.Minute, 10 * time.Minute, 1000 * time.Second, 24 * time.Hour} {
			t.Run(fmt.Sprint(p.Name, lease), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					holds := p
					if p.Name == locktest.Reader().Name {
						holds = locktest.Writer()
					}
					held := atOnce(f.T, holds.New(f.user().Session, "a", signalbox.WithRenewedLease(lease)))
					time.Sleep(10 * time.Second) // it has its whole lease
					waiting := locktest.LaterWith(f.Context(), p.New(f.user().Session, "a", signalbox.WithRenewedLease(lease)).Lock)
					time.Sleep(10 * time.Second)
					require.Empty(f, waiting)
					require.NoError(f, held.Unlock())
					require.NoError(f, locktest.MustHave(f, waiting).Unlock())
				})
			})
		}
	}
}

// P1, P6: so it is for any number of permits.
func TestAnyNumberOfPermitsIsCounted(t *testing.T) {
	t.Parallel()
	for _, n := range []int{99_999_999, 100_000_000, 200_000_000, 1_000_000_000, semaphore.MaxPermits} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				mine, theirs := semaphore.New(f.user().Session, "a", n), semaphore.New(f.user().Session, "a", 5)
				free := func(want int) {
					f.Helper()
					got, err := theirs.Available(f.Context())
					require.NoError(f, err)
					require.Equal(f, want, got)
				}
				held, err := mine.Acquire(f.Context(), n)
				require.NoError(f, err)
				free(0)
				require.ErrorIs(f, no(theirs.TryAcquire(f.Context(), 1)), signalbox.ErrHeld)
				waiting := locktest.LaterWith(f.Context(), theirs.Permits(3).Lock)
				time.Sleep(5 * time.Second)
				require.Empty(f, waiting)
				require.NoError(f, held.Unlock())
				next := locktest.MustHave(f, waiting)
				free(n - 3)
				require.NoError(f, next.Unlock())
				free(n)
			})
		})
	}
}

// P6: so it is after the holder has left, if a waiter died that was behind it: the key has no hold then.
func TestALeaseOfAnyLengthIsForgotten(t *testing.T) {
	t.Parallel()
	for _, p := range append(locktest.Primitives(), locktest.Reader()) {
		for _, lease := range []time.Duration{99 * time.Second, 100 * time.Second, 5 * time.Minute} {
			t.Run(fmt.Sprint(p.Name, lease), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					held := atOnce(f.T, p.New(f.user().Session, "a", signalbox.WithRenewedLease(lease)))
					time.Sleep(10 * time.Second) // it has its whole lease
					dies := locktest.Writer()
					if p.Name != locktest.Reader().Name {
						dies = p
					}
					s, link := f.open()
					locktest.LaterWith(f.Context(), dies.New(s, "a").Lock)
					time.Sleep(time.Second)
					link.refuse()
					time.Sleep(time.Second)
					require.NoError(f, held.Unlock())
					ctx, cancel := context.WithTimeout(f.Context(), 5*time.Second)
					defer cancel()
					next, err := dies.New(f.user().Session, "a").Lock(ctx)
					require.NoError(f, err)
					require.NoError(f, next.Unlock())
				})
			})
		}
	}
}
