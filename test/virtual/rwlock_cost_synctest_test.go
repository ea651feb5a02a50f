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
	"github.com/signalbox-go/signalbox/redisson"
)

// P5: a Lock whose request is sent again, because no reply came, counts once: it has one hold, and one Unlock ends it.
func TestRWRepeatedLockHasOneHold(t *testing.T) {
	t.Parallel()
	eachRWSide(t, 2, func(t *testing.T, f *fixture, users []queueUser, side locktest.Primitive) {
		for _, layout := range [][]signalbox.LockOption{nil, {signalbox.WithLayout(redisson.Layout())}} {
			mine, other := side.New(users[0].Session, "a", layout...), locktest.Writer().New(users[1].Session, "a", layout...)
			require.NoError(t, atOnce(t, mine).Unlock())
			users[0].swallowsReplies.Store(true)
			got := queued(t.Context(), mine)
			time.Sleep(time.Second / 2)
			require.Empty(t, got)
			require.Len(t, f.rwEnds("a"), 1, "granted, and not known")
			users[0].heal()
			lease := granted(t, got)
			require.Len(t, f.rwEnds("a"), 1)
			if len(layout) > 0 {
				fields, err := f.redis.HKeys("a")
				require.NoError(t, err)
				require.Len(t, fields, 2, "one hold, and the mode")
			}
			_, err := other.TryLock(t.Context())
			require.ErrorIs(t, err, signalbox.ErrHeld)
			require.NoError(t, lease.Unlock())
			require.NoError(t, atOnce(t, other).Unlock())
			time.Sleep(10 * time.Second)
			f.rwFree(t)
		}
	})
}

// P7: a lock that is held costs no goroutine and no subscription, on either side.
func TestRWHeldLocksCostNoGoroutine(t *testing.T) {
	t.Parallel()
	eachRWSide(t, 1, func(t *testing.T, f *fixture, users []queueUser, side locktest.Primitive) {
		lock := func(n int) locktest.Lock {
			return side.New(users[0].Session, fmt.Sprint("held/", n), signalbox.WithRenewedLease(rwLife))
		}
		leases := []signalbox.Lease{atOnce(t, lock(0))}
		time.Sleep(3 * rwLife)
		before, channels := resting(), len(f.redis.PubSubChannels("*"))
		for n := range 50 {
			leases = append(leases, atOnce(t, lock(n+1)))
		}
		time.Sleep(3 * rwLife)
		require.LessOrEqual(t, resting(), before)
		require.Len(t, f.redis.PubSubChannels("*"), channels)
		for _, lease := range leases {
			require.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock())
		}
		time.Sleep(time.Minute)
		require.Zero(t, goroutines(), "P4")
	})
}

// P8: only the lease unlocks, once, and what was unlocked does not end the hold of a reader beside it or of the next holder.
func TestRWOnlyTheLeaseUnlocks(t *testing.T) {
	t.Parallel()
	eachRWContention(t, nil, func(t *testing.T, r rwCrowd) {
		var beside signalbox.Lease
		if !r.writes() {
			beside = atOnce(t, r.reader)
		}
		require.NoError(t, r.lease.Unlock())
		if r.writes() {
			beside = atOnce(t, r.writer)
		}
		require.ErrorIs(t, r.lease.Unlock(), signalbox.ErrNotHeld)
		require.ErrorIs(t, signalbox.Lease{}.Unlock(), signalbox.ErrNotHeld)
		require.Len(t, r.rwEnds("a"), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := r.other.Lock(ctx)
		require.ErrorIs(t, err, signalbox.ErrHeld)
		require.NoError(t, beside.Err())
		require.NoError(t, beside.Unlock())
	})
}
