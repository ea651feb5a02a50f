// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/scripts"
)

// longestTurn bounds for how long a reentrant lock is handed over inside one process while others may wait.
const longestTurn = 20 * time.Millisecond

// P6: while goroutines of one session keep coming, a waiter of another session has the lock after at most a turn, one use
// and the way to the server and back, whichever package it uses; a turn ends with one call, which also queues again.
func TestATurnEndsWhileGoroutinesKeepComing(t *testing.T) {
	t.Parallel()
	const latency, use, turns = time.Millisecond, time.Millisecond, 20
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, latency)
		defer closeAll()
		busy := reentrant.New(users[0].Session, "a")
		var served atomic.Bool
		var uses atomic.Int64
		var goroutines sync.WaitGroup
		for range 4 {
			goroutines.Go(func() {
				for !served.Load() {
					lease, err := busy.Lock(f.Context())
					if err != nil {
						f.Error(err)
						return
					}
					uses.Add(1)
					time.Sleep(use)
					if err := lease.Unlock(); err != nil {
						f.Error(err)
					}
				}
			})
		}
		time.Sleep(time.Second)
		for _, other := range []locktest.Lock{reentrant.New(users[1].Session, "a"), fair.New(users[1].Session, "a")} {
			scripts, before := f.scripts.Load(), uses.Load()
			for range turns {
				requested := time.Now()
				lease := atOnce(f.T, other)
				require.LessOrEqual(f, time.Since(requested), longestTurn+use+6*latency)
				require.NoError(f, lease.Unlock())
			}
			require.Greater(f, uses.Load()-before, int64(2*turns), "the others do not wait for ever")
			require.Less(f, f.scripts.Load()-scripts, uses.Load()-before, "most uses are handed over inside the process")
		}
		served.Store(true)
		goroutines.Wait()
	})
}

// P6: in the layout of Redisson, too, a session that keeps the lock among its goroutines releases it after 20 ms, and the waiters
// of all sessions try for it. Most uses are handed over without the server.
func TestATurnInRedissonsLayoutEndsWhileGoroutinesKeepComing(t *testing.T) {
	t.Parallel()
	const latency, use, locals, turns = time.Millisecond, time.Millisecond, 4, 20
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, 2, latency)
		defer closeAll()
		layout := signalbox.WithLayout(redisson.Layout())
		busy, other := reentrant.New(users[0].Session, "a", layout), reentrant.New(users[1].Session, "a", layout)
		var served atomic.Bool
		var uses atomic.Int64
		var goroutines sync.WaitGroup
		for range locals {
			goroutines.Go(func() {
				for !served.Load() {
					lease := atOnce(f.T, busy)
					uses.Add(1)
					time.Sleep(use)
					require.NoError(f, lease.Unlock())
				}
			})
		}
		time.Sleep(time.Second)
		scripts, before := f.scripts.Load(), uses.Load()
		for range turns {
			requested := time.Now()
			lease := atOnce(f.T, other)
			require.LessOrEqual(f, time.Since(requested), longestTurn+use+6*latency)
			require.NoError(f, lease.Unlock())
		}
		used := uses.Load() - before
		require.Greater(f, used, int64(10*turns))
		require.Less(f, 2*(f.scripts.Load()-scripts), used)
		served.Store(true)
		goroutines.Wait()
	})
}

// P6: with many processes turns are shorter, and all alike: waits are short, and all are served alike.
func TestTurnsOfManyProcessesAreShortAndAlike(t *testing.T) {
	t.Parallel()
	const (
		processes, each = 60, 2
		latency, use    = 500 * time.Microsecond, 500 * time.Microsecond
		lasts, longest  = 4 * time.Second, 400 * time.Millisecond
	)
	bubble(t, func(f *fixture) {
		users, closeAll := f.queueUsers(f.T, processes, latency)
		defer closeAll()
		var ( // guarded by the lock under test
			served [processes]int
			uses   int
			waited time.Duration // the longest
		)
		ends := time.Now().Add(lasts)
		locktest.Together(f.T, processes*each, func(i int) error {
			mu := reentrant.New(users[i%processes].Session, "a")
			for time.Now().Before(ends) {
				requested := time.Now()
				lease, err := mu.Lock(f.Context())
				if err != nil {
					return err
				}
				waited = max(waited, time.Since(requested))
				served[i%processes]++
				uses++
				time.Sleep(use)
				if err := lease.Unlock(); err != nil {
					return err
				}
			}
			return nil
		})
		f.Logf("waited for %v at most; of %d uses a process had %d to %d", waited, uses, slices.Min(served[:]), slices.Max(served[:]))
		require.Less(f, waited, longest)
		require.GreaterOrEqual(f, 10*slices.Min(served[:]), 7*slices.Max(served[:]))
		require.Greater(f, 2*time.Duration(uses)*use, lasts, "hand-offs between processes take less than half of the time")
	})
}

// P4, P6: whatever happens to the call that ends a turn and queues again, waiters here and elsewhere are served soon, and
// nothing is left.
func TestACallThatEndsATurnMayFail(t *testing.T) {
	t.Parallel()
	const soon = 5 * time.Second
	for _, kind := range []redistest.FaultKind{
		redistest.CutBeforeRequest, redistest.CutAfterRequest, redistest.CutAfterReply, redistest.DelayRequest,
		redistest.DelayReply, redistest.SwallowRequest, redistest.SwallowReply,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			bubble(t, func(f *fixture) {
				fault := newRequestFault(kind)
				s, _, closeAll := f.requestFaultSession(fault)
				defer closeAll()
				users, closeOthers := f.queueUsers(f.T, 1, time.Millisecond)
				defer closeOthers()
				mu, other := reentrant.New(s, "a"), reentrant.New(users[0].Session, "a")
				for _, faulted := range []bool{false, true} { // the server knows the scripts from the first round
					lease := atOnce(f.T, mu)
					here, there := queuedAndListening(f.Context(), mu), queuedAndListening(f.Context(), other)
					if faulted {
						fault.arm(1, scripts.LockRequeue)
					}
					released, last := time.Now(), lease.Token()
					require.NoError(f, locktest.IgnoreUnconfirmed(lease.Unlock()))
					for range 2 {
						var got lockResult
						select {
						case got = <-here:
						case got = <-there:
						}
						require.NoError(f, got.err)
						require.Less(f, got.at.Sub(released), soon)
						require.Greater(f, got.lease.Token(), last)
						last = got.lease.Token()
						require.NoError(f, locktest.IgnoreUnconfirmed(got.lease.Unlock())) // the connection may be silent still
					}
				}
				require.True(f, locktest.IsClosed(fault.fired))
				time.Sleep(soon)
				tickets, _ := f.redis.ZMembers(locktest.Keys("a").QueueKey())
				require.Empty(f, tickets)
				require.NoError(f, atOnce(f.T, other).Unlock())
				requireIdle(f.T, s, users[0].Session)
			})
		})
	}
}
