// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// A process with many goroutines on a lock lets another one have its turn: it passes the lock
// on among them for 20 ms at the most, and then backs off.
func TestProcessWithManyGoroutinesLetsOthersHaveTurns(t *testing.T) {
	t.Parallel()
	const locals, turns = 64, 60
	f := newFixture(t)
	ctx, cancel := context.WithCancel(locktest.Context(t))
	defer cancel()
	taken := make([]int, locals)
	var (
		waits []time.Duration
		total atomic.Int64 // turns of the locals
		meant int64        // the turns of the locals while the other waited
	)
	locktest.Together(t, locals+1, func(i int) error {
		if i < locals {
			lock := reentrant.New(f.holder, "turns")
			for {
				lease, err := lock.Lock(ctx)
				if err != nil {
					if ctx.Err() != nil {
						err = nil // it is over
					}
					return err
				}
				taken[i]++
				total.Add(1)
				if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
					return err
				}
			}
		}
		defer cancel()
		lock := reentrant.New(f.other, "turns")
		for range turns {
			begun, before := time.Now(), total.Load()
			lease, err := lock.Lock(context.WithoutCancel(ctx))
			if err != nil {
				return err
			}
			meant += total.Load() - before
			waits = append(waits, time.Since(begun))
			if err := locktest.IgnoreUnconfirmed(lease.Unlock()); err != nil {
				return err
			}
		}
		return nil
	})
	slices.Sort(waits)
	for _, n := range taken {
		require.Positive(t, n, "a goroutine never had its turn")
	}
	t.Logf("the other waited %v in the middle, %v for 99 in 100, %v at most, while %d goroutines had %d turns",
		waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1], locals, meant)
	require.Less(t, meant, int64(2*turns*1024), "the lock was handed over for too long")
}
