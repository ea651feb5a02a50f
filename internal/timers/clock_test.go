// SPDX-License-Identifier: Apache-2.0

package timers_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// day is where the wall clock stands in these tests; the monotonic one stands at an hour.
var day = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// at returns the instant after the two clocks moved on by so much.
func at(mono, wall time.Duration) timers.Instant {
	return timers.At(time.Hour+mono, day.Add(wall))
}

func TestAnInstantIsReachedWhenEitherClockSaysSo(t *testing.T) {
	t.Parallel()
	const life = 30 * time.Second
	deadline := at(0, 0).Add(life)
	for name, c := range map[string]struct {
		now     timers.Instant
		reached bool
		until   time.Duration
	}{
		"Before":               {at(life-1, life-1), false, 1},
		"Exactly":              {at(life, life), true, 0},
		"After":                {at(life+1, life+1), true, -1},
		"HostWasSuspended":     {at(time.Second, life), true, 0},
		"HostSleptLong":        {at(time.Second, time.Hour), true, life - time.Hour},
		"WallClockSetForward":  {at(time.Second, 20*time.Second), false, 10 * time.Second},
		"WallClockSetBack":     {at(life, -time.Hour), true, 0},
		"WallClockSetBackSoon": {at(10*time.Second, -time.Hour), false, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.reached, deadline.Reached(c.now))
			require.Equal(t, c.until, deadline.Until(c.now))
		})
	}
}

func TestBothClocksRunOn(t *testing.T) {
	t.Parallel()
	before := timers.Now()
	deadline := before.Add(time.Hour)
	require.LessOrEqual(t, deadline.Until(timers.Now()), time.Hour)
	require.False(t, deadline.Reached(timers.Now()))
	require.True(t, before.Reached(timers.Now()))
	require.WithinDuration(t, time.Now().Add(time.Hour), deadline.Time(), time.Minute)
	require.Equal(t, time.Hour, deadline.Mono()-before.Mono())
}

func TestTheZeroInstantIsBeforeEveryOther(t *testing.T) {
	t.Parallel()
	var zero timers.Instant
	require.True(t, zero.IsZero())
	require.True(t, zero.Reached(timers.Now()))
	require.Negative(t, zero.Until(timers.Now()))
	require.False(t, timers.Now().IsZero())
	require.False(t, at(0, 0).IsZero())
}

func TestAnAtomicIsTheInstantItWasGiven(t *testing.T) {
	t.Parallel()
	var a timers.Atomic
	require.True(t, a.Load().IsZero())
	a.Store(at(1, 2))
	require.Equal(t, at(1, 2), a.Load())
}

// A read during a write may be early, and is never late: the two clocks are those of the instants around
// it.
func TestAnAtomicThatGrowsIsNeverReadAsLaterThanItIs(t *testing.T) {
	t.Parallel()
	const steps = 20_000
	var a timers.Atomic
	a.Store(at(0, 0))
	var readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			for last := at(0, 0); ; {
				read := a.Load()
				if read.Until(at(steps, steps)) > 0 || read.Until(last) < -1 {
					t.Errorf("read %v after %v", read, last)
					return
				}
				last = read
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for i := range time.Duration(steps) {
		a.Store(at(i+1, i+1))
	}
	close(done)
	readers.Wait()
	require.Equal(t, at(steps, steps), a.Load())
}

func TestTheAllowanceIsNeverMoreThanTheLife(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second, 24 * time.Hour} {
		require.Less(t, timers.Allowance(life), life/20)
		require.GreaterOrEqual(t, timers.Allowance(life), life/100+2*time.Millisecond)
	}
}
