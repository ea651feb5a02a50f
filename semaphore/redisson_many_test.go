// SPDX-License-Identifier: Apache-2.0

package semaphore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/semaphore"
)

// P6: in the layout of Redisson, whose own scripts fail on 8,000 of them, any number of expired permits is
// reported as free, and the next call frees them, also for a caller that requests many at once.
func TestTenThousandSharedPermitsThatEndedAtOnceComeBack(t *testing.T) {
	t.Parallel()
	const n, most = 10_000, 1000
	for name, kind := range sharedKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			sem := semaphore.New(newSession(t, server), "a", n, kind.options...)
			server.MustDo(t, "EVAL", `
for i = 1, ARGV[1] do
  redis.call('ZADD', KEYS[2], 1000, string.format('%016d', i))
end
redis.call('SET', KEYS[1], 0)`, 2, "a", kind.timeouts, n)
			require.Equal(t, n, available(t, sem))
			for range sem.Holders(t.Context()) {
				t.Error("no permits are held")
			}
			lease := mustAcquire(t, sem, most)
			require.Equal(t, n-most, available(t, sem))
			require.NoError(t, lease.Unlock())
			for range n / 100 { // as many as one call removes
				require.NoError(t, mustAcquire(t, sem, 1).Unlock())
			}
			require.Zero(t, server.MustDo(t, "ZCARD", kind.timeouts))
			require.Equal(t, "10000", server.MustDo(t, "GET", "a"))
		})
	}
}
