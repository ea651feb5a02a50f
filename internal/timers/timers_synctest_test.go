// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"math"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// fixture is a Timers in a bubble, with its wake-ups counted: wake-ups that fired something,
// wake-ups that did not, and wake-ups by wakeFor or Close.
type fixture struct {
	*Timers
	start                  time.Time
	fired, idle, disturbed counter
}

// counter is atomic, as virtual time passing does not order a read before a later write.
type counter struct{ n atomic.Int64 }

func (c *counter) add()     { c.n.Add(1) }
func (c *counter) get() int { return int(c.n.Load()) }

func newFixture() *fixture {
	f := &fixture{Timers: New(), start: time.Now()}
	f.onWake = func(fires int) {
		switch {
		case fires == wokenEarly:
			f.disturbed.add()
		case fires == 0:
			f.idle.add()
		default:
			f.fired.add()
		}
	}
	return f
}

func (f *fixture) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.running
}

func TestFireComesAtTheFirstTickAfterTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		time.Sleep(300 * time.Microsecond) // between two ticks
		from := time.Now()
		type shot struct{ in, at, since time.Duration }
		shots := make(chan shot, 6)
		for _, in := range []time.Duration{
			time.Nanosecond, 700 * time.Microsecond, 701 * time.Microsecond,
			time.Millisecond, 90 * time.Second, 25 * time.Hour,
		} {
			timer := newTestTimer(func() { shots <- shot{in, time.Since(from), time.Since(f.start)} })
			f.Schedule(&timer.Timer, in)
		}
		for range cap(shots) {
			s := <-shots
			require.GreaterOrEqual(t, s.at, s.in, "early")
			require.Less(t, s.at, s.in+tick, "later than the next tick")
			require.Zero(t, s.since%tick, "not on a tick")
		}
		synctest.Wait()
		require.Equal(t, 4, f.fired.get(), "one wake-up for each tick, those of a tick share it")
		require.Zero(t, f.idle.get())
	})
}

func TestEndlessDelayNeverFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		timer := newTestTimer(func() { t.Error("fired") })
		time.Sleep(time.Second) // present and delay together exceed an int64
		f.Schedule(&timer.Timer, math.MaxInt64)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Zero(t, f.idle.get())
		require.True(t, f.Cancel(&timer.Timer))
	})
}

func TestLaterScheduleAndCancelDoNotWakeTheGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		timer := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&timer.Timer, 10*time.Second)
		synctest.Wait()
		for range 100_000 {
			f.Cancel(&timer.Timer)
			f.Schedule(&timer.Timer, 10*time.Second)
			time.Sleep(50 * time.Microsecond)
		}
		f.Cancel(&timer.Timer)
		synctest.Wait()
		require.Zero(t, f.disturbed.get()+f.idle.get(), "5 seconds, nothing was due")
		time.Sleep(compareEvery)
		synctest.Wait()
		require.Zero(t, f.disturbed.get()+f.idle.get())
		require.False(t, f.isRunning(), "it finds nothing when it compares the clocks")
	})
}

func TestEarlierScheduleWakesTheGoroutineOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		at := make(chan time.Duration, 3)
		fire := func() { at <- time.Since(f.start) }
		late, soon, between := newTestTimer(fire), newTestTimer(fire), newTestTimer(fire)
		f.Schedule(&late.Timer, time.Hour)
		synctest.Wait()
		f.Schedule(&soon.Timer, time.Second)
		f.Schedule(&between.Timer, time.Minute)
		synctest.Wait()
		require.Equal(t, 1, f.disturbed.get())
		for _, want := range []time.Duration{time.Second, time.Minute, time.Hour} {
			require.Equal(t, want, <-at)
		}
		synctest.Wait()
		require.Equal(t, 1, f.disturbed.get())
		require.Zero(t, f.idle.get())
	})
}

// The goroutine keeps its target while it only compares the clocks. Entries that are scheduled at the moment of a comparison
// fire in time all the same.
func TestEarlierScheduleBesideAComparisonFiresInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		late := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&late.Timer, 24*time.Hour)
		at := make(chan time.Time, 1)
		for n := range 200 {
			time.Sleep(compareEvery) // ends with a sleep of the goroutine
			in, from := time.Duration(n)*10*time.Millisecond, time.Now()
			soon := newTestTimer(func() { at <- time.Now() })
			f.Schedule(&soon.Timer, in)
			require.Equal(t, in, (<-at).Sub(from))
		}
		require.True(t, f.Cancel(&late.Timer))
	})
}

func TestPostponedEntryCostsOneWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		fired := make(chan time.Duration, 1)
		timer := newTestTimer(func() { fired <- time.Since(f.start) })
		f.Schedule(&timer.Timer, 10*time.Second)
		synctest.Wait()
		f.Schedule(&timer.Timer, time.Hour)
		require.Equal(t, time.Hour, <-fired)
		synctest.Wait()
		require.Equal(t, 1, f.idle.get())
		require.Zero(t, f.disturbed.get())
	})
}

func TestGoroutineBearsALabel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		timer := newTestTimer(func() {})
		f.Schedule(&timer.Timer, time.Hour)
		synctest.Wait()
		var profile strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
		require.Contains(t, profile.String(), `"signalbox":"timers"`)
	})
}

func TestGoroutineEndsWhenNothingIsLeftAndStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		var fires counter
		timer := newTestTimer(fires.add)
		require.False(t, f.isRunning(), "New starts nothing")
		for round := range 3 {
			f.Schedule(&timer.Timer, time.Second)
			synctest.Wait()
			require.True(t, f.isRunning())
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, round+1, fires.get())
			require.False(t, f.isRunning())
			f.goroutine.Wait() // it is gone, not only said to be
		}
	})
}

func TestCancelledEntryDoesNotFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		var fires counter
		timer := newTestTimer(fires.add)
		f.Schedule(&timer.Timer, time.Second)
		require.True(t, f.Cancel(&timer.Timer))
		require.False(t, f.Cancel(&timer.Timer))
		f.Schedule(&timer.Timer, 2*time.Second)
		f.Schedule(&timer.Timer, 5*time.Second)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Zero(t, fires.get())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, fires.get())
		require.False(t, f.Cancel(&timer.Timer))
	})
}

// A Fire that sleeps stands for a process that is paused.
func TestPausedProcessFiresEverythingOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		defer f.Close()
		const n, pause = 1000, 3 * time.Second
		pauser := newTestTimer(func() { time.Sleep(pause) })
		f.Schedule(&pauser.Timer, time.Millisecond)
		order := make(chan int, n)
		for i := range n {
			timer := newTestTimer(func() { order <- i })
			f.Schedule(&timer.Timer, time.Duration(2+i)*time.Millisecond)
		}
		future := make(chan time.Duration, 1)
		timer := newTestTimer(func() { future <- time.Since(f.start) })
		f.Schedule(&timer.Timer, time.Minute)

		time.Sleep(pause + time.Millisecond)
		synctest.Wait()
		require.Len(t, order, n)
		for i := range n {
			require.Equal(t, i, <-order)
		}
		require.Equal(t, 1+(n+MaxBatch-1)/MaxBatch, f.fired.get())
		require.Equal(t, time.Minute, <-future)
	})
}
