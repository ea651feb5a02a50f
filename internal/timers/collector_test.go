// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEveryConcurrentPutRunsOnce(t *testing.T) {
	t.Parallel()
	const putters, each = 8, 2_000
	ticks := New()
	defer ticks.Close()
	var seen [putters * each]atomic.Int32
	var left sync.WaitGroup
	left.Add(len(seen))
	c := NewCollector(ticks, func(batch []int) {
		for _, n := range batch {
			seen[n].Add(1)
			left.Done()
		}
	})
	defer c.Close()
	for p := range putters {
		go func() {
			for i := range each {
				c.Put(p*each + i)
			}
		}()
	}
	left.Wait() // if an entry is lost, this waits until the test's time-out reports it
	for n := range seen {
		require.Equal(t, int32(1), seen[n].Load(), "value %d", n)
	}
}

func TestCloseBesidePutLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	for range 200 {
		ticks := New()
		var closed atomic.Bool
		c := NewCollector(ticks, func([]int) {
			if closed.Load() {
				t.Error("worked after Close")
			}
		})
		var putters sync.WaitGroup
		for range 4 {
			putters.Go(func() {
				for i := range 50 {
					c.Put(i)
				}
			})
		}
		c.Close()
		closed.Store(true)
		putters.Wait()
		ticks.Close()
	}
}
