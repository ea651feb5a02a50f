// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// P6: a waiter that no message reaches has the lock by its next poll, about a second after the release. For the kinds that
// TestAPollFindsALostGrant and TestAPollFindsALostGrantOfEitherSide leave out.
func TestLostMessageCostsAWaiterASecond(t *testing.T) {
	t.Parallel()
	for _, kind := range []locktest.Primitive{locktest.Reentrant(), locktest.RedissonReentrant(), locktest.Permit()} {
		bubble(t, func(w *fixture) {
			holder, _, closeHolder := w.session(w.T)
			defer closeHolder()
			waiter, link, closeWaiter := w.session(w.T)
			defer closeWaiter()
			link.losesMessages.Store(true)
			for n := range 20 {
				held := atOnce(w.T, kind.New(holder, "a"))
				next := queuedAndListening(w.Context(), kind.New(waiter, "a"))
				time.Sleep(time.Duration(n) * 137 * time.Millisecond)
				released := time.Now()
				require.NoError(w, held.Unlock())
				got := <-next
				require.NoError(w, got.err, kind.Name)
				require.LessOrEqual(w, got.at.Sub(released), 1010*time.Millisecond, kind.Name)
				require.Greater(w, got.lease.Token(), held.Token(), kind.Name)
				require.NoError(w, got.lease.Unlock())
			}
		})
	}
}

// P2: a holder that misses the message of a ForceUnlock learns of its loss by the next renewal.
func TestForcedHolderLearnsOfItWithoutTheMessage(t *testing.T) {
	t.Parallel()
	const life = 15 * time.Second
	for _, kind := range append(locktest.Locks(), locktest.Reader(), locktest.RedissonReentrant()) {
		bubble(t, func(w *fixture) {
			holder, link, closeHolder := w.session(w.T)
			defer closeHolder()
			other, _, closeOther := w.session(w.T)
			defer closeOther()
			lease := atOnce(w.T, kind.New(holder, "a", signalbox.WithRenewedLease(life)))
			time.Sleep(life) // it listens by now
			synctest.Wait()
			link.losesMessages.Store(true)
			forced := time.Now()
			require.NoError(w, kind.New(other, "a").(interface {
				ForceUnlock(ctx context.Context) error
			}).ForceUnlock(w.Context()))
			<-lease.Done()
			require.Positive(w, time.Since(forced), "it received the message")
			require.LessOrEqual(w, time.Since(forced), life/3, kind.Name)
			require.ErrorIs(w, lease.Unlock(), signalbox.ErrLost, kind.Name)
		})
	}
}

// P10: a waiter that gives up gets the last state as its error: that the server refuses, not that the lock
// was held before.
func TestWaiterThatGivesUpReturnsTheRefusal(t *testing.T) {
	t.Parallel()
	for name, lock := range inEachLayout() { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *fixture) {
				holder, _, closeHolder := w.session(w.T)
				defer closeHolder()
				waiter, _, closeWaiter := w.session(w.T)
				defer closeWaiter()
				// Readers wait for a writer.
				held := atOnce(w.T, inEachLayout()[strings.Replace(name, locktest.Reader().Name, locktest.Writer().Name, 1)](holder))
				ctx, cancel := context.WithCancel(w.Context())
				next := queuedAndListening(ctx, lock(waiter))
				time.Sleep(3 * time.Second)
				w.redis.SetError("BUSY Redis is busy running a script")
				time.Sleep(3 * time.Second) // in which it polls
				cancel()
				err := (<-next).err
				w.redis.SetError("")
				require.ErrorIs(w, err, context.Canceled)
				require.ErrorIs(w, err, signalbox.ErrRefused)
				require.NotErrorIs(w, err, signalbox.ErrHeld)
				require.ErrorContains(w, err, "BUSY Redis is busy")
				require.NoError(w, held.Unlock())
			})
		})
	}
}
