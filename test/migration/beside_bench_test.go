// SPDX-License-Identifier: Apache-2.0

package migration_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/setnx"
)

// BenchmarkSetNXBesideRedsync has eight workers of redsync and eight of this library, each a process of its own for the server,
// use one lock for a millisecond at a time, for as many uses as the benchmark has rounds. It reports how many uses of redsync
// there are for one of ours, and the longest wait of either. docs/migration.md has the result.
func BenchmarkSetNXBesideRedsync(b *testing.B) {
	const workers = 8
	server := redistest.Start(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(b.N))
	type side struct{ uses, longest atomic.Int64 }
	var redsyncs, ours side
	var running sync.WaitGroup
	work := func(s *side, lock func(context.Context) (func() error, error)) {
		running.Go(func() {
			for left.Add(-1) >= 0 {
				began := time.Now()
				unlock, err := lock(ctx)
				if err != nil {
					b.Error(err)
					return
				}
				waited := int64(time.Since(began))
				for before := s.longest.Load(); waited > before && !s.longest.CompareAndSwap(before, waited); before = s.longest.Load() {
				}
				s.uses.Add(1)
				for until := time.Now().Add(time.Millisecond); time.Now().Before(until); {
				}
				if err := unlock(); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for range workers {
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		b.Cleanup(func() { require.NoError(b, client.Close()) })
		locks := redsync.New(goredis.NewPool(client))
		work(&redsyncs, func(ctx context.Context) (func() error, error) {
			mutex := locks.NewMutex("order/42", redsync.WithTries(1<<30))
			return func() error { _, err := mutex.UnlockContext(ctx); return err }, mutex.LockContext(ctx)
		})
		mu := reentrant.New(locktest.Session(b, server), "order/42", signalbox.WithLayout(setnx.Layout()))
		work(&ours, func(ctx context.Context) (func() error, error) {
			lease, err := mu.Lock(ctx)
			return lease.Unlock, err
		})
	}
	running.Wait()
	b.ReportMetric(float64(redsyncs.uses.Load())/float64(max(1, ours.uses.Load())), "redsync/ours")
	b.ReportMetric(time.Duration(redsyncs.longest.Load()).Seconds(), "s-longest-redsync")
	b.ReportMetric(time.Duration(ours.longest.Load()).Seconds(), "s-longest-ours")
}
