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

func TestCloseEndsTheGoroutineAndNothingFiresAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		timer := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&timer.Timer, time.Second)
		synctest.Wait()
		f.Close()
		f.Close()
		require.Zero(t, time.Since(f.start), "Close waited for the sleep to end by itself")
		late := newTestTimer(func() { t.Error("fired") })
		f.Schedule(&late.Timer, 0)
		require.False(t, f.Cancel(&late.Timer))
		time.Sleep(time.Hour)
		require.False(t, f.isRunning())
	})
}

func TestEveryCloseWaitsForTheRunningFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		var done counter
		slow := newTestTimer(func() {
			time.Sleep(time.Minute)
			done.add()
		})
		next := newTestTimer(func() { t.Error("fired after Close") })
		f.Schedule(&slow.Timer, time.Second)
		f.Schedule(&next.Timer, time.Second+tick)
		time.Sleep(2 * time.Second)
		seen := make(chan int, 2)
		for range 2 {
			go func() {
				f.Close()
				seen <- done.get()
			}()
		}
		require.Equal(t, 1, <-seen)
		require.Equal(t, 1, <-seen)
		require.Equal(t, time.Minute+time.Second, time.Since(f.start))
	})
}

// What is due in a pause fires when it is over, and not before; Close does not wait for its end.
func TestNothingFiresInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture()
		var fired counter
		timer, y, z := newTestTimer(fired.add), newTestTimer(fired.add), newTestTimer(fired.add)
		f.Schedule(&timer.Timer, time.Second)
		f.Schedule(&y.Timer, time.Hour)
		f.Pause()
		f.Pause()
		time.Sleep(time.Minute)
		require.Zero(t, fired.get())
		f.Schedule(&z.Timer, 0)
		synctest.Wait()
		require.Zero(t, fired.get())
		f.Resume()
		f.Resume()
		synctest.Wait()
		require.Equal(t, 2, fired.get())
		f.Pause()
		time.Sleep(2 * time.Hour)
		f.Close()
		require.Equal(t, 2, fired.get())
	})
}

// skewed runs a test that sets the wall clock, in virtual time. It returns when an entry fired, and what was said of sleeps.
func skewed(t *testing.T, test func(f *fixture, fired chan time.Time, slept *[]Suspension)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer Skew(0)
		f := newFixture()
		defer f.Close()
		var slept []Suspension
		f.OnSuspended(func(s Suspension) { slept = append(slept, s) })
		fired := make(chan time.Time, 10)
		test(f, fired, &slept)
	})
}

func TestSuspendedHostFiresWhatCameDueMeanwhile(t *testing.T) {
	skewed(t, func(f *fixture, fired chan time.Time, slept *[]Suspension) {
		fire := func() { fired <- time.Now() }
		due, later := newTestTimer(fire), newTestTimer(fire)
		f.Schedule(&due.Timer, time.Hour)
		f.Schedule(&later.Timer, time.Hour+2*time.Second)
		time.Sleep(time.Second)
		Skew(time.Hour)
		resumed := time.Now()
		require.LessOrEqual(t, (<-fired).Sub(resumed), compareEvery)
		require.Len(t, *slept, 1)
		require.InDelta(t, time.Hour, (*slept)[0].Lasted, float64(time.Millisecond))
		require.Equal(t, time.Second, (<-fired).Sub(resumed), "what is left counts on from there")
		require.Equal(t, 2, f.fired.get())
		require.Zero(t, f.idle.get())
		fresh := newTestTimer(fire)
		f.Schedule(&fresh.Timer, time.Second)
		from := time.Now()
		require.Equal(t, time.Second, (<-fired).Sub(from), "a sleep counts once")
		require.Equal(t, time.Hour, time.Duration(f.suspended.Load()))
	})
}

// A wall clock that was set back hides no later sleep.
func TestSleepAfterTheWallClockWasSetBackCounts(t *testing.T) {
	skewed(t, func(f *fixture, fired chan time.Time, slept *[]Suspension) {
		timer := newTestTimer(func() { fired <- time.Now() })
		f.Schedule(&timer.Timer, time.Minute)
		synctest.Wait()
		Skew(-time.Hour)
		time.Sleep(time.Second)
		require.Empty(t, *slept)
		Skew(-time.Hour + time.Minute)
		resumed := time.Now()
		require.LessOrEqual(t, (<-fired).Sub(resumed), compareEvery)
		require.Len(t, *slept, 1)
	})
}

// Clocks that come apart slowly do so unnoticed until that is worth it, and then all of it counts.
func TestSlowDriftOfTheClocksAddsUp(t *testing.T) {
	skewed(t, func(f *fixture, fired chan time.Time, _ *[]Suspension) {
		timer := newTestTimer(func() { fired <- time.Now() })
		from := time.Now()
		f.Schedule(&timer.Timer, time.Minute)
		for drift := time.Duration(0); drift < 100*time.Millisecond; drift += time.Millisecond {
			time.Sleep(compareEvery)
			Skew(drift)
		}
		require.InDelta(t, time.Minute-100*time.Millisecond, (<-fired).Sub(from), float64(clockNoise))
	})
}

// A stream of earlier entries, each of which wakes the goroutine, does not keep it from comparing the clocks.
func TestClocksAreComparedThoughTheGoroutineIsWokenAllTheTime(t *testing.T) {
	skewed(t, func(f *fixture, fired chan time.Time, _ *[]Suspension) {
		timer := newTestTimer(func() { fired <- time.Now() })
		f.Schedule(&timer.Timer, time.Hour)
		Skew(2 * time.Hour)
		resumed := time.Now()
		for range 10 {
			soon := newTestTimer(func() {})
			f.Schedule(&soon.Timer, compareEvery/4)
			time.Sleep(compareEvery / 10)
			f.Cancel(&soon.Timer)
		}
		require.LessOrEqual(t, (<-fired).Sub(resumed), compareEvery)
	})
}

func TestWallClockOfAnotherCenturyDoesNotOverflow(t *testing.T) {
	skewed(t, func(f *fixture, fired chan time.Time, slept *[]Suspension) {
		timer := newTestTimer(func() { fired <- time.Now() })
		for n := range 4 {
			Skew(0)
			f.Schedule(&timer.Timer, time.Hour)
			time.Sleep(time.Second)
			Skew(200 * 365 * 24 * time.Hour)
			<-fired
			require.Len(t, *slept, n+1)
		}
		require.Equal(t, 4*maxSuspension, time.Duration(f.suspended.Load()))
	})
}
