// SPDX-License-Identifier: Apache-2.0

package notify

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// P6: polls keep to a budget of a thousand a second, as long as no lock waits for one longer than ten
// seconds.
func TestPollsKeepToTheirBudget(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		waits int
		every time.Duration // the longest interval
	}{
		{1, time.Second},
		{1_000, time.Second},
		{10_000, 10 * time.Second},
		{100_000, 10 * time.Second}, // the ceiling counts more than the budget
	} {
		var sum time.Duration
		const samples = 2_000
		for range samples {
			pause := nextPoll(time.Hour, PollInterval, c.waits)
			require.LessOrEqual(t, pause, c.every)
			require.GreaterOrEqual(t, pause, c.every*4/5)
			sum += pause
		}
		// Jitter brings polls forward by a tenth in the mean.
		require.InDelta(t, float64(c.every)*9/10, float64(sum)/samples, float64(c.every)/50)
	}
}

// P6: a key without an end is polled as often as one that ends in an hour.
func TestLockWithoutAnEndIsPolled(t *testing.T) {
	t.Parallel()
	for range 1_000 {
		pause := nextPoll(-time.Millisecond, PollInterval, 1)
		require.LessOrEqual(t, pause, time.Second)
		require.GreaterOrEqual(t, pause, 4*time.Second/5)
	}
}

// P6: if the holder's key ends soon, the poll comes just after. If many locks are waited for, which one dead
// process may have held, the polls are spread over the time that the budget needs for them.
func TestPollsAfterAHoldersEndAreSpread(t *testing.T) {
	t.Parallel()
	const left = 100 * time.Millisecond
	for _, c := range []struct {
		waits        int
		first, width time.Duration
	}{
		{1, left, 2 * time.Millisecond},
		{1_000, left, time.Second},
		{9_000, left, 9 * time.Second},
		{100_000, left, 10*time.Second - left},
	} {
		const samples, parts = 4_000, 4
		var spread [parts]int
		for range samples {
			pause := nextPoll(left, PollInterval, c.waits)
			require.Greater(t, pause, left)
			require.LessOrEqual(t, pause, left+c.width+2*time.Millisecond)
			require.LessOrEqual(t, pause, 10*time.Second)
			part := int(parts * (pause - c.first - time.Millisecond) / (c.width + 2*time.Millisecond))
			spread[part]++
		}
		if c.waits == 1_000 || c.waits == 9_000 {
			for _, n := range spread {
				require.InDelta(t, samples/parts, n, samples/parts/3.0)
			}
		}
	}
}
