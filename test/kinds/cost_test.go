// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// bounded reports whether the cost of a kind is bounded here: that of the locks that most programs use.
func bounded(k lockKind) bool {
	return k.Name == locktest.Reentrant().Name || k.Name == locktest.Fair().Name
}

// P7: a request that makes a lock object and a context with a deadline allocates no more than this.
func TestUncontendedPair_FreshObject_Allocations(t *testing.T) {
	if isRace {
		t.Skip("the race detector makes pools drop what they keep")
	}
	alone(t, bounded, func(f *fixture) {
		session := f.session(signalbox.WithPolling())
		for n, take := range []func(anyLock, context.Context) (signalbox.Lease, error){anyLock.Lock, anyLock.TryLock} {
			pair := func() {
				ctx, cancel := context.WithTimeout(f.Context(), time.Minute)
				defer cancel()
				lease, err := take(f.in(session), ctx)
				require.NoError(f, err)
				require.NoError(f, lease.Unlock())
			}
			pair() // teaches the server the scripts
			// 8, of which 5 are the context's. If a pair takes longer than 47 ms, each has a heartbeat and a not-after of its own.
			require.LessOrEqual(f, testing.AllocsPerRun(200, pair), 12.0, n)
		}
	})
}

// P7: a lock that is held takes no more memory than this, with the lock object that its lease keeps. A
// reentrant hold takes 1,325 to 1,394 bytes from run to run, a fair one 1,283 to 1,349.
func TestHeldLock_Uncontended_Memory(t *testing.T) { //nolint:paralleltest // memory is counted
	const held, most = 2000, 1480
	alone(t, bounded, func(f *fixture) {
		session := f.session(signalbox.WithPolling())
		require.NoError(f, f.must(f.in(session)).Unlock())
		leases := make([]signalbox.Lease, held)
		before := heap()
		for i := range leases {
			lease, err := of(f.Primitive, session, fmt.Sprintf("cost/%06d", i)).Lock(f.Context())
			require.NoError(f, err)
			leases[i] = lease
		}
		grown := heap() - before
		for _, lease := range leases {
			require.NoError(f, lease.Unlock())
		}
		require.Less(f, grown/held, int64(most))
	})
}

// heap returns how many bytes are in use. It collects twice: the first collection moves what pools hold to where the second
// one frees it.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) //nolint:gosec // it is less than that
}
