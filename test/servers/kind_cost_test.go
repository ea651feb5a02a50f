// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// P7: a lock that is held takes no more memory than this. The size of the tables of all locks varies from run to run, and a connection
// that is replaced meanwhile has buffers of 128 KiB.
func TestHeldLock_Uncontended_Memory(t *testing.T) { //nolint:paralleltest // memory is counted
	const held, slack = 2000, 140
	alone(t, native, func(f *kindFixture) {
		session := f.session(signalbox.WithPolling())
		require.NoError(f, f.must(f.in(session)).Unlock())
		leases := make([]signalbox.Lease, held)
		before := heap()
		for i := range leases {
			lease, err := lockOf(f.Primitive, session, fmt.Sprintf("cost/%06d", i)).Lock(f.Context())
			require.NoError(f, err)
			leases[i] = lease
		}
		grown := heap() - before
		for _, lease := range leases {
			require.NoError(f, lease.Unlock())
		}
		require.LessOrEqual(f, grown/held, pairCosts()[f.Primitive.Name].held+slack)
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
