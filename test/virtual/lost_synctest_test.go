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
		bubble(t, func(f *fixture) {
			holder, _, closeHolder := f.session(f.T)
			defer closeHolder()
			waiter, link, closeWaiter := f.session(f.T)
			defer closeWaiter()
			link.losesMessages.Store(true)
			for n := range 20 {
				held := atOnce(f.T, kind.New(holder, "a"))
				next := queuedAndListening(f.Context(), kind.New(waiter, "a"))
				time.Sleep(time.Duration(n) * 137 * time.Millisecond)
				released := time.Now()
				require.NoError(f, held.Unlock())
				got := <-next
				require.NoError(f, got.err, kind.Name)
				require.LessOrEqual(f, got.at.Sub(released), 1010*time.Millisecond, kind.Name)
				require.Greater(f, got.lease.Token(), held.Token(), kind.Name)
				require.NoError(f, got.lease.Unlock())
			}
		})
	}
}

// P2: a holder that misses the message of a ForceUnlock learns of its loss by the next renewal.
func TestForcedHolderLearnsOfItWithoutTheMessage(t *testing.T) {
	t.Parallel()
	const life = 15 * time.Second
	for _, kind := range append(locktest.Locks(), locktest.Reader(), locktest.RedissonReentrant()) {
		bubble(t, func(f *fixture) {
			holder, link, closeHolder := f.session(f.T)
			defer closeHolder()
			other, _, closeOther := f.session(f.T)
			defer closeOther()
			lease := atOnce(f.T, kind.New(holder, "a", signalbox.WithRenewedLease(life)))
			time.Sleep(life) // it listens by now
			synctest.Wait()
			link.losesMessages.Store(true)
			forced := time.Now()
			require.NoError(f, kind.New(other, "a").(interface {
				ForceUnlock(ctx context.Context) error
			}).ForceUnlock(f.Context()))
			<-lease.Done()
			require.Positive(f, time.Since(forced), "it received the message")
			require.LessOrEqual(f, time.Since(forced), life/3, kind.Name)
			require.ErrorIs(f, lease.Unlock(), signalbox.ErrLost, kind.Name)
		})
	}
}

// P10: a waiter that gives up gets the last state as its error: that the server refuses, not that the lock
// was held before.
func TestWaiterThatGivesUpReturnsTheRefusal(t *testing.T) {
	t.Parallel()
	for name, lock := range inEachLayout() { //nolint:paralleltest // as above
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				holder, _, closeHolder := f.session(f.T)
				defer closeHolder()
				waiter, _, closeWaiter := f.session(f.T)
				defer closeWaiter()
				// Readers wait for a writer.
				held := atOnce(f.T, inEachLayout()[strings.Replace(name, locktest.Reader().Name, locktest.Writer().Name, 1)](holder))
				ctx, cancel := context.WithCancel(f.Context())
				next := queuedAndListening(ctx, lock(waiter))
				time.Sleep(3 * time.Second)
				f.redis.SetError("BUSY Redis is busy running a script")
				time.Sleep(3 * time.Second) // in which it polls
				cancel()
				err := (<-next).err
				f.redis.SetError("")
				require.ErrorIs(f, err, context.Canceled)
				require.ErrorIs(f, err, signalbox.ErrRefused)
				require.NotErrorIs(f, err, signalbox.ErrHeld)
				require.ErrorContains(f, err, "BUSY Redis is busy")
				require.NoError(f, held.Unlock())
			})
		})
	}
}
