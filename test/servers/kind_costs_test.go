// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// pairCost is what an uncontended lock and its unlock cost, in a session that knows the scripts and has found no queues.
type pairCost struct {
	commands map[string]int64 // what the server ran, in scripts too; each evalsha is a round trip
	bytes    [2]int64         // the bytes of the requests, with Lock and with TryLock
	objects  float64          // what the client makes, with a lock object and a context of the caller
	held     int64            // the bytes of heap of a lock that is held, with the lock object that its lease keeps
}

// pairCosts has the kinds of the library's own layout.
func pairCosts() map[string]pairCost {
	one := map[string]int64{"evalsha": 2, "time": 1, "get": 2, "set": 2}
	// A lease of more than 30 s costs the last two one zadd, which notes it: those of this test are so long.
	writer := map[string]int64{"evalsha": 2, "time": 1, "zmscore": 2, "zadd": 2, "pexpire": 1, "set": 2, "del": 1}
	permits := map[string]int64{"evalsha": 2, "time": 1, "zmscore": 2, "zadd": 3, "pexpire": 2, "zrem": 1}
	return map[string]pairCost{
		locktest.Reentrant().Name: {one, [2]int64{343, 343}, 8, 812},
		locktest.Fair().Name:      {one, [2]int64{343, 343}, 8, 812},
		locktest.Writer().Name:    {writer, [2]int64{672, 651}, 13, 992},
		locktest.Reader().Name:    {writer, [2]int64{672, 651}, 14, 1083},
		locktest.Permit().Name:    {permits, [2]int64{681, 660}, 13, 967},
	}
}

// takers are the two ways to acquire a lock.
var takers = [2]func(anyLock, context.Context) (signalbox.Lease, error){anyLock.Lock, anyLock.TryLock}

// size returns the bytes of a request on the wire.
func size(request []string) (n int64) {
	n = int64(len("*\r\n") + len(strconv.Itoa(len(request))))
	for _, word := range request {
		n += int64(len("$\r\n\r\n") + len(strconv.Itoa(len(word))) + len(word))
	}
	return n
}

// P7: this is what a pair costs, whatever the clock says. The leases are so long that nothing is renewed.
func TestUncontendedPair_CommandsAndBytes(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, native, func(f *kindFixture) {
		proxy, want := redistest.NewProxy(f, f.server.Addr()), pairCosts()[f.Primitive.Name]
		session := locktest.SteadySession(f, proxy, signalbox.WithPolling(), signalbox.WithLabel("label"))
		pair := func(take func(anyLock, context.Context) (signalbox.Lease, error)) {
			mu := lockOf(f.Primitive, session, "pair", signalbox.WithRenewedLease(longest), signalbox.WithFirstLease(longest))
			lease, err := take(mu, f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
		}
		var bytes atomic.Int64
		proxy.OnRequest(func(_ int, request []string) { bytes.Add(size(request)) })
		for range 40 {
			pair(anyLock.Lock) // the session finds no queues
		}
		for n, take := range takers {
			bytes.Store(0)
			require.Equal(f, want.commands, f.server.SentBy(func() { pair(take) }), n)
			require.Equal(f, want.bytes[n], bytes.Load(), n)
		}
	})
}

// P7: a request that makes a lock object and a context with a deadline makes no more objects than this.
func TestUncontendedPair_FreshObject_Allocations(t *testing.T) {
	if redistest.UnderRace {
		t.Skip("the race detector makes pools drop what they keep")
	}
	alone(t, native, func(f *kindFixture) {
		session := f.session(signalbox.WithPolling())
		for n, take := range takers {
			pair := func() {
				ctx, cancel := context.WithTimeout(f.Context(), time.Minute) // 5 objects
				defer cancel()
				lease, err := take(f.in(session), ctx)
				require.NoError(f, err)
				require.NoError(f, lease.Unlock())
			}
			for range 40 {
				pair() // the session finds no queues
			}
			// If a pair takes longer than 47 ms, each has a heartbeat and a not-after of its own.
			require.LessOrEqual(f, testing.AllocsPerRun(200, pair), pairCosts()[f.Primitive.Name].objects+4, n)
		}
	})
}

// P7: a lock that its session keeps is used again without an allocation.
func TestKeptPair_AllocatesNothing(t *testing.T) {
	if redistest.UnderRace {
		t.Skip("the race detector makes pools drop what they keep")
	}
	alone(t, func(k lockKind) bool { return k.Name == locktest.Reentrant().Name }, func(f *kindFixture) {
		session := f.session(signalbox.WithDefaults(signalbox.WithKeepWarm(time.Minute), signalbox.WithFirstLease(3*time.Second)))
		mu := f.in(session)
		pair := func() {
			lease, err := mu.Lock(f.Context())
			require.NoError(f, err)
			require.NoError(f, lease.Unlock())
		}
		redistest.Await(f, "an idle lock", func() bool {
			pair()
			return session.IdleLocks() == 1
		})
		require.Zero(f, testing.AllocsPerRun(1000, pair)) // a renewal, and the enter after 1,024 uses, are less than one in all pairs
	})
}

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
