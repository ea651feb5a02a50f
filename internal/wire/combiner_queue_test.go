// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/scripts"
)

// aloof is a client that is asked for nothing but its mode.
type aloof struct{ rueidis.Client }

func (aloof) Mode() rueidis.ClientMode { return rueidis.ClientModeStandalone }

// giveUpBytes returns how many bytes one caller allocates that gives up while n others wait.
func giveUpBytes(t *testing.T, n int) uint64 {
	t.Helper()
	c := NewCombiner(NewRunner(aloof{}), scripts.ReentrantAcquire)
	c.mu.inFlight = maxInFlight
	c.runner.trip.took(near)
	for range n {
		c.mu.queue.push(&request{})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	keys := []string{"key"}
	giveUp := func() {
		_, err := c.Run(ctx, keys)
		require.ErrorIs(t, err, ErrNotSent)
	}
	giveUp() // makes the request that the others use again
	const times = 500
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		giveUp()
	}
	runtime.ReadMemStats(&after)
	return (after.TotalAlloc - before.TotalAlloc) / times
}

// A caller that gives up pays for itself, and not for those that wait: 20,000 that gave up together
// once copied 1.8 GB.
func TestGivingUpCostsTheSameHoweverManyWait(t *testing.T) { //nolint:paralleltest // counts all allocations
	few, many := giveUpBytes(t, 100), giveUpBytes(t, 10_000)
	require.InDelta(t, few, many, 1_000)
}

// Requests leave in the order in which they came, whichever gave up before.
func TestQueueKeepsTheOrderOfThoseThatStay(t *testing.T) {
	t.Parallel()
	for range 200 {
		var q queue
		var want []*request
		for range 1 + rand.N(20) {
			r := &request{}
			q.push(r)
			want = append(want, r)
		}
		for range rand.N(len(want) + 1) {
			i := rand.N(len(want))
			require.True(t, q.remove(want[i]))
			require.False(t, q.remove(want[i]), "it has left")
			want = slices.Delete(want, i, i+1)
		}
		late := &request{}
		q.push(late)
		for _, r := range append(want, late) {
			require.Same(t, r, q.pop())
		}
		require.Equal(t, queue{}, q)
	}
}
