// SPDX-License-Identifier: Apache-2.0

package waitroom

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// A waiter that was served may wait elsewhere before serve returns, with the same waiter. What ends that
// new wait is not what serve returns.
func TestAServedWaiterMayWaitElsewhereAtOnce(t *testing.T) {
	t.Parallel()
	for range 1000 {
		var (
			q         = waitlist{key: new(ShareKey)}
			elsewhere sync.WaitGroup
		)
		w := &waiter{events: make(chan event)} // without a buffer, so that it continues before serve does
		q.append(new(Room), w)
		elsewhere.Go(func() {
			<-w.events
			w.cancelWait = func() {}
		})
		call := q.serve(w, event{})
		elsewhere.Wait()
		require.Nil(t, call, "it ends the wait elsewhere")
	}
}

// P7: thousands of keys that are in use at one time do not search for their waitlists among each other, and those of keys that come and
// go are reused.
func TestWaitlistsOfManyKeysAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	const most = 4000
	table := NewTable(timers.New())
	q := table.Use("a")
	keyOf := func(n int) ShareKey { return ShareKey{Permits: int32(n)} } //nolint:gosec // a few
	for n := range most {
		q.HoldBegan(keyOf(n))
		require.Nil(t, q.findLocked(keyOf(n+1)))
	}
	steps, lists := 0, 0
	for range q.listsLocked() {
		lists++
	}
	require.Equal(t, most, lists)
	for n := range most {
		require.Equal(t, keyOf(n), *q.findLocked(keyOf(n)).key)
		for list := *q.bucketLocked(keyOf(n)); list != nil; list = list.next {
			steps++
		}
	}
	require.LessOrEqual(t, steps, 3*most)
	for n := range most {
		q.HoldEnded(keyOf(n))
		require.Nil(t, q.findLocked(keyOf(n)))
	}
	for n := range 10 * most { // each in use for a moment
		q.HoldBegan(keyOf(n))
		q.HoldEnded(keyOf(n))
	}
	lists = 0
	for range q.listsLocked() {
		lists++
	}
	require.LessOrEqual(t, lists, 2*most)
}
