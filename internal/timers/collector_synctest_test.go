// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// batches keeps what a work function was given.
type batches struct {
	mu struct {
		sync.Mutex
		all [][]int
	}
}

func (b *batches) work(batch []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.all = append(b.mu.all, batch)
}

func (b *batches) get() [][]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.all
}

// collectorFixture is a Collector with what it gathered.
type collectorFixture struct {
	testing.TB
	*Collector[int]
	batches
}

// collects runs a test with a Collector in virtual time.
func collects(t *testing.T, test func(c *collectorFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ticks, c := New(), &collectorFixture{TB: t}
		c.Collector = NewCollector(ticks, c.batches.work)
		defer ticks.Close()
		defer c.Close()
		test(c)
	})
}

func TestEntriesOfOneTickAreOneBatch(t *testing.T) {
	t.Parallel()
	collects(t, func(c *collectorFixture) {
		c.Put(1)
		c.Put(2, 3)
		require.Empty(c, c.get(), "Put does no work")
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(c, [][]int{{1, 2, 3}}, c.get())
		c.Put(4)
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		require.Equal(c, [][]int{{1, 2, 3}, {4}}, c.get())
		time.Sleep(time.Hour)
		require.Len(c, c.get(), 2, "worked once")
	})
}

func TestNoEntryIsNoWork(t *testing.T) {
	t.Parallel()
	collects(t, func(c *collectorFixture) {
		c.Put()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(c, c.get())
	})
}

func TestTwoBatchesRunAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticks := New()
		defer ticks.Close()
		both := make(chan int) // unbuffered: each sender waits for the other
		c := NewCollector(ticks, func(batch []int) {
			if batch[0] == 1 {
				both <- 1
				return
			}
			<-both
		})
		defer c.Close()
		c.Put(1)
		time.Sleep(10 * time.Millisecond)
		c.Put(2)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		select {
		case both <- 0:
			t.Error("the second batch waits for the first")
		default:
		}
	})
}

func TestCloseWaitsForTheWorkUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ticks := New()
		defer ticks.Close()
		var done time.Time
		c := NewCollector(ticks, func([]int) {
			time.Sleep(time.Second)
			done = time.Now()
		})
		c.Put(1)
		time.Sleep(5 * time.Millisecond)
		c.Close()
		require.Equal(t, time.Now(), done)
	})
}

func TestNothingRunsAfterClose(t *testing.T) {
	t.Parallel()
	collects(t, func(c *collectorFixture) {
		c.Put(1)
		c.Close()
		c.Put(2)
		c.Close()
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(c, c.get())
	})
}
