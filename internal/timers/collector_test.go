// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// The goroutine runs empty, ends and is started over and over here, on real time. Every scheduling must end
// in a Fire or in a Cancel that returned true.
func TestNothingIsMissedWhileTheGoroutineEndsAndStarts(t *testing.T) {
	t.Parallel()
	timers := New()
	defer timers.Close()
	const users, rounds = 4, 80
	var work sync.WaitGroup
	for user := range users {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 0))
			fired := make(chan time.Time, 1)
			timer := newTestTimer(func() { fired <- time.Now() })
			for range rounds {
				in := time.Duration(random.Int64N(int64(3 * time.Millisecond)))
				from := time.Now()
				timers.Schedule(&timer.Timer, in)
				if random.IntN(3) == 0 && timers.Cancel(&timer.Timer) {
					continue
				}
				at := <-fired // the test's own time limit ends a wait for a missed one
				if at.Sub(from) < in {
					t.Errorf("fired %v after Schedule, want %v", at.Sub(from), in)
				}
			}
		})
	}
	work.Wait()
}

func TestConcurrentUseWithCloseIsSafe(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		timers := New()
		var closed atomic.Bool
		var work sync.WaitGroup
		for user := range 3 {
			work.Go(func() {
				random := rand.New(rand.NewPCG(uint64(user), uint64(round)))
				timer := newTestTimer(func() {
					if closed.Load() {
						t.Error("fired after Close")
					}
				})
				for range 200 {
					timers.Schedule(&timer.Timer, time.Duration(random.Int64N(int64(2*time.Millisecond))))
					if random.IntN(2) == 0 {
						timers.Cancel(&timer.Timer)
					}
				}
			})
		}
		for range 2 {
			work.Go(func() {
				timers.Close()
				closed.Store(true)
			})
		}
		work.Wait()
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	timers := New()
	defer timers.Close()
	timer, first := newTestTimer(func() {}), newTestTimer(func() {})
	timers.Schedule(&first.Timer, time.Hour)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		timers.Schedule(&timer.Timer, 2*time.Hour)
		timers.Cancel(&timer.Timer)
	}))
}
