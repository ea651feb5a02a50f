// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// Every scheduling ends in exactly one way: collected, cancelled, or replaced while it
// was pending. The last are not counted by anyone, so each goroutine cancels before it
// schedules again.
func TestConcurrentUseLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	const users, rounds = 4, 5000
	w := timers.NewWheel(64)
	var now, scheduled, cancelled, collected atomic.Int64
	stop := make(chan struct{})

	var driver, work sync.WaitGroup
	driver.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			collected.Add(int64(len(w.Advance(now.Add(1), nil))))
			w.Next()
		}
	})
	for user := range users {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 0))
			all := newWheelTimers(50)
			for range rounds {
				e := &all[random.IntN(len(all))].Timer
				if w.Cancel(e) {
					cancelled.Add(1)
				}
				scheduled.Add(1)
				w.Schedule(e, now.Load()+random.Int64N(200))
			}
		})
	}
	work.Wait()
	close(stop)
	driver.Wait()

	last := now.Load() + 200
	for w.Len() > 0 {
		collected.Add(int64(len(w.Advance(last, nil))))
	}
	require.Equal(t, scheduled.Load(), collected.Load()+cancelled.Load())
}

// Many goroutines move the same entries, so that Schedule meets Schedule.
func TestConcurrentScheduleOfOneEntryIsSafe(t *testing.T) {
	t.Parallel()
	w, all := timers.NewWheel(16), newWheelTimers(3)
	var work sync.WaitGroup
	for user := range 4 {
		work.Go(func() {
			random := rand.New(rand.NewPCG(uint64(user), 1))
			for range 5000 {
				e := &all[random.IntN(len(all))].Timer
				if random.IntN(4) == 0 {
					w.Cancel(e)
				} else {
					w.Schedule(e, random.Int64N(1000))
				}
			}
		})
	}
	work.Go(func() {
		for now := range int64(1000) {
			w.Advance(now, nil)
			w.Next()
		}
	})
	work.Wait()
	for w.Len() > 0 {
		w.Advance(1000, nil)
	}
	for _, timer := range all {
		require.False(t, w.Cancel(&timer.Timer))
	}
}
