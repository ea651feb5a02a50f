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

	"github.com/signalbox-go/signalbox/internal/timers/wheel"
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
	b := &fixture{Timers: New(), start: time.Now()}
	b.onWake = func(fires int) {
		switch {
		case fires == wokenEarly:
			b.disturbed.add()
		case fires == 0:
			b.idle.add()
		default:
			b.fired.add()
		}
	}
	return b
}

func (b *fixture) isRunning() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.running
}

func TestFireComesAtTheFirstTickAfterTheDelay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		time.Sleep(300 * time.Microsecond) // between two ticks
		from := time.Now()
		type shot struct{ in, at, since time.Duration }
		shots := make(chan shot, 6)
		for _, in := range []time.Duration{
			time.Nanosecond, 700 * time.Microsecond, 701 * time.Microsecond,
			time.Millisecond, 90 * time.Second, 25 * time.Hour,
		} {
			x := newTestTimer(func() { shots <- shot{in, time.Since(from), time.Since(b.start)} })
			b.Schedule(&x.Entry, in)
		}
		for range cap(shots) {
			s := <-shots
			require.GreaterOrEqual(t, s.at, s.in, "early")
			require.Less(t, s.at, s.in+tick, "later than the next tick")
			require.Zero(t, s.since%tick, "not on a tick")
		}
		synctest.Wait()
		require.Equal(t, 4, b.fired.get(), "one wake-up for each tick, those of a tick share it")
		require.Zero(t, b.idle.get())
	})
}

func TestDelayThatIsNotPositiveFiresWithoutTimePassing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		for _, in := range []time.Duration{0, -time.Hour, math.MinInt64} {
			fired := make(chan time.Duration, 1)
			x := newTestTimer(func() { fired <- time.Since(b.start) })
			b.Schedule(&x.Entry, in)
			require.Zero(t, <-fired)
		}
	})
}

func TestEndlessDelayNeverFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		x := newTestTimer(func() { t.Error("fired") })
		time.Sleep(time.Second) // present and delay together exceed an int64
		b.Schedule(&x.Entry, math.MaxInt64)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Zero(t, b.idle.get())
		require.True(t, b.Cancel(&x.Entry))
	})
}

func TestHoursPassWithoutASpuriousWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		var fires counter
		var beat *testTimer
		beat = newTestTimer(func() {
			if fires.add(); fires.get() < 20 {
				b.Schedule(&beat.Entry, 30*time.Minute)
			}
		})
		b.Schedule(&beat.Entry, 30*time.Minute)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		require.Equal(t, 20, fires.get())
		require.Equal(t, 20, b.fired.get())
		require.Zero(t, b.idle.get())
		require.Zero(t, b.disturbed.get())
		require.False(t, b.isRunning())
	})
}

func TestLaterScheduleAndCancelDoNotWakeTheGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		x := newTestTimer(func() { t.Error("fired") })
		b.Schedule(&x.Entry, 10*time.Second)
		synctest.Wait()
		for range 100_000 {
			b.Cancel(&x.Entry)
			b.Schedule(&x.Entry, 10*time.Second)
			time.Sleep(50 * time.Microsecond)
		}
		b.Cancel(&x.Entry)
		synctest.Wait()
		require.Zero(t, b.disturbed.get()+b.idle.get(), "5 seconds, nothing was due")
		time.Sleep(compareEvery)
		synctest.Wait()
		require.Zero(t, b.disturbed.get()+b.idle.get())
		require.False(t, b.isRunning(), "it finds nothing when it compares the clocks")
	})
}

func TestEarlierScheduleWakesTheGoroutineOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		at := make(chan time.Duration, 3)
		fire := func() { at <- time.Since(b.start) }
		late, soon, between := newTestTimer(fire), newTestTimer(fire), newTestTimer(fire)
		b.Schedule(&late.Entry, time.Hour)
		synctest.Wait()
		b.Schedule(&soon.Entry, time.Second)
		b.Schedule(&between.Entry, time.Minute)
		synctest.Wait()
		require.Equal(t, 1, b.disturbed.get())
		for _, want := range []time.Duration{time.Second, time.Minute, time.Hour} {
			require.Equal(t, want, <-at)
		}
		synctest.Wait()
		require.Equal(t, 1, b.disturbed.get())
		require.Zero(t, b.idle.get())
	})
}

// The goroutine keeps its target while it only compares the clocks. Entries that are scheduled at the moment of a comparison
// fire in time all the same.
func TestEarlierScheduleBesideAComparisonFiresInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		late := newTestTimer(func() { t.Error("fired") })
		b.Schedule(&late.Entry, 24*time.Hour)
		at := make(chan time.Time, 1)
		for n := range 200 {
			time.Sleep(compareEvery) // ends with a sleep of the goroutine
			in, from := time.Duration(n)*10*time.Millisecond, time.Now()
			soon := newTestTimer(func() { at <- time.Now() })
			b.Schedule(&soon.Entry, in)
			require.Equal(t, in, (<-at).Sub(from))
		}
		require.True(t, b.Cancel(&late.Entry))
	})
}

func TestPostponedEntryCostsOneWakeUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		fired := make(chan time.Duration, 1)
		x := newTestTimer(func() { fired <- time.Since(b.start) })
		b.Schedule(&x.Entry, 10*time.Second)
		synctest.Wait()
		b.Schedule(&x.Entry, time.Hour)
		require.Equal(t, time.Hour, <-fired)
		synctest.Wait()
		require.Equal(t, 1, b.idle.get())
		require.Zero(t, b.disturbed.get())
	})
}

func TestWakeUpThatCameTooLateDoesNotDisturbTheNextSleep(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		b.mu.Lock()
		b.wakeLocked() // as if sent while the sleep ended by itself
		b.mu.Unlock()
		x := newTestTimer(func() {})
		b.Schedule(&x.Entry, time.Hour)
		synctest.Wait()
		require.Zero(t, b.disturbed.get())
	})
}

func TestGoroutineBearsALabel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		x := newTestTimer(func() {})
		b.Schedule(&x.Entry, time.Hour)
		synctest.Wait()
		var profile strings.Builder
		require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
		require.Contains(t, profile.String(), `"signalbox":"timers"`)
	})
}

func TestGoroutineEndsWhenNothingIsLeftAndStartsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		var fires counter
		x := newTestTimer(fires.add)
		require.False(t, b.isRunning(), "New starts nothing")
		for round := range 3 {
			b.Schedule(&x.Entry, time.Second)
			synctest.Wait()
			require.True(t, b.isRunning())
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, round+1, fires.get())
			require.False(t, b.isRunning())
			b.goroutine.Wait() // it is gone, not only said to be
		}
	})
}

func TestCancelledEntryDoesNotFire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		var fires counter
		x := newTestTimer(fires.add)
		b.Schedule(&x.Entry, time.Second)
		require.True(t, b.Cancel(&x.Entry))
		require.False(t, b.Cancel(&x.Entry))
		b.Schedule(&x.Entry, 2*time.Second)
		b.Schedule(&x.Entry, 5*time.Second)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Zero(t, fires.get())
		time.Sleep(time.Second)
		synctest.Wait()
		require.Equal(t, 1, fires.get())
		require.False(t, b.Cancel(&x.Entry))
	})
}

// A Fire that sleeps stands for a process that is paused.
func TestPausedProcessFiresEverythingOldestFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFixture()
		defer b.Close()
		const n, pause = 1000, 3 * time.Second
		pauser := newTestTimer(func() { time.Sleep(pause) })
		b.Schedule(&pauser.Entry, time.Millisecond)
		order := make(chan int, n)
		for i := range n {
			x := newTestTimer(func() { order <- i })
			b.Schedule(&x.Entry, time.Duration(2+i)*time.Millisecond)
		}
		future := make(chan time.Duration, 1)
		x := newTestTimer(func() { future <- time.Since(b.start) })
		b.Schedule(&x.Entry, time.Minute)

		time.Sleep(pause + time.Millisecond)
		synctest.Wait()
		require.Len(t, order, n)
		for i := range n {
			require.Equal(t, i, <-order)
		}
		require.Equal(t, 1+(n+wheel.MaxBatch-1)/wheel.MaxBatch, b.fired.get())
		require.Equal(t, time.Minute, <-future)
	})
}
