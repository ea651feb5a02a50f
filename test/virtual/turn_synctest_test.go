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
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/semaphore"
)

// longestTurn bounds for how long a reentrant lock is handed over inside one process while others may wait.
const longestTurn = 20 * time.Millisecond

// P6, P7: while goroutines of one session keep coming, a waiter of another session has the lock after at most a turn, one use and the way
// to the server and back, whichever package it uses; so has one of the same session with other terms. A turn ends with one call, which
// also queues again: most uses are handed over inside the process.
func TestATurnEndsWhileGoroutinesKeepComing(t *testing.T) {
	t.Parallel()
	const latency, use, turns = time.Millisecond, time.Millisecond, 20
	inRedisson := signalbox.WithLayout(redisson.Layout())
	for name, c := range map[string]struct {
		busy   func(s *signalbox.Session) locktest.Lock
		others func(own, another *signalbox.Session) []locktest.Lock
	}{
		"Reentrant": {
			func(s *signalbox.Session) locktest.Lock { return reentrant.New(s, "a") },
			func(own, another *signalbox.Session) []locktest.Lock {
				return []locktest.Lock{reentrant.New(another, "a"), fair.New(another, "a"), reentrant.New(own, "a", signalbox.WithFixedLease(time.Minute))}
			},
		},
		"KeptWarm": {
			func(s *signalbox.Session) locktest.Lock {
				return reentrant.New(s, "a", signalbox.WithKeepWarm(keptFor))
			},
			func(_, another *signalbox.Session) []locktest.Lock {
				return []locktest.Lock{reentrant.New(another, "a"), fair.New(another, "a")}
			},
		},
		"Redisson": {
			func(s *signalbox.Session) locktest.Lock { return reentrant.New(s, "a", inRedisson) },
			func(_, another *signalbox.Session) []locktest.Lock {
				return []locktest.Lock{reentrant.New(another, "a", inRedisson)}
			},
		},
		"Semaphore": {
			func(s *signalbox.Session) locktest.Lock { return locktest.Permit().New(s, "a") },
			func(own, another *signalbox.Session) []locktest.Lock {
				return []locktest.Lock{locktest.Permit().New(another, "a"), locktest.Permit().New(own, "a", semaphore.ExactCapacity())}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				users := f.queueUsers(2, latency)
				busy := c.busy(users[0].Session)
				var served atomic.Bool
				var uses atomic.Int64
				var goroutines sync.WaitGroup
				for range 4 {
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
				for _, other := range c.others(users[0].Session, users[1].Session) {
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
		})
	}
}

// P6: with many processes turns are shorter, and all alike: waits are short, and all are served alike.
func TestTurnsOfManyProcessesAreShortAndAlike(t *testing.T) {
	t.Parallel()
	const (
		processes, each = 60, 2
		latency, use    = 500 * time.Microsecond, 500 * time.Microsecond
		lasts, longest  = 4 * time.Second, 400 * time.Millisecond
	)
	bubbleOfUsers(t, func(f *fixture) {
		users := f.queueUsers(processes, latency)
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
