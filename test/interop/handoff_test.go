// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// rounds is how often a lock changes hands in a test of hand-offs.
const rounds = 25

// P1, P6: the waiter has the lock when the holder releases it, and not before, on whichever side each of
// them is; and the message wakes it. A Java waiter does nothing else within the hour that the key lives. A
// Go waiter polls about once a second, so the test counts the hand-offs in which it did not poll, and
// repeats until there are enough of them.
func TestEveryWaiterIsWokenByEveryHolder(t *testing.T) {
	t.Parallel()
	eachRelease(t, func(t *testing.T, release string) {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server.Addr())
		proxy.SetMatch(locktest.RunsScript(scripts.Load("redisson/poll", 1)))
		p, other := newPeer(t, release, server), newPeer(t, release, server)
		sides := map[string][2]side{ // as holder, as waiter: a side waits in another process than it holds in
			"java": {javaSide{p, "holder"}, javaSide{other, "waiter"}},
			"go":   {newGoSide(t, server), newGoSide(t, proxy)},
		}
		for holder := range sides {
			for waiter := range sides {
				name := holder + " to " + waiter
				from, to := sides[holder][0], sides[waiter][1]
				var latencies []time.Duration
				woken, late := 0, locktest.Context(t)
				for round := 0; round < rounds || woken <= rounds/2 && late.Err() == nil; round++ {
					key := fmt.Sprintf("%s-%s-%d", holder, waiter, round)
					took(t, from.take(key))
					taken := to.take(key)
					awaitListeners(t, server, key, 1)
					polls := proxy.Requests()
					require.Empty(t, taken, "taken while it is held")
					from.release(t, key)
					given := time.Now()
					took(t, taken)
					latencies = append(latencies, time.Since(given))
					if proxy.Requests() == polls {
						woken++
					}
					to.release(t, key)
				}
				require.Greater(t, woken, rounds/2, "%s: woken by polls", name)
				slices.Sort(latencies)
				n := len(latencies)
				t.Logf("%s: %d of %d without a poll, from unlock to lock p50 %v, p99 %v", name, woken, n, latencies[n/2], latencies[n*99/100])
			}
		}
		awaitNothing(t, server)
	})
}
