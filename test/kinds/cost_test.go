// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
)

// bounded reports whether the cost of a kind is bounded here: that of the locks that most programs use.
func bounded(k lockKind) bool {
	return k.Name == locktest.Reentrant().Name || k.Name == locktest.Fair().Name
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
