// SPDX-License-Identifier: Apache-2.0

package timers

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

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
