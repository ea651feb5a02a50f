// SPDX-License-Identifier: Apache-2.0

package relay

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// booth is a line with one place.
type booth struct{ *place }

func newBooth() booth {
	p := &place{entered: make(chan error, 1), granted: make(chan error, 1), began: make(chan error, 1), token: 2}
	p.entered <- errWaits
	return booth{p}
}

// Ready implements Line.
func (booth) Ready() error { return nil }

// Place implements Line.
func (b booth) Place() (Place, error) { return b.place, nil }

// awaitLine waits until so many are in the first queue, and the last of them stands in line or not.
func (r *Relay) awaitLine(t *testing.T, n int, stands bool) {
	t.Helper()
	require.Eventually(t, func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		in := 0
		for w := r.mu.queue.head; w != nil; w = w.next {
			in++
		}
		return in == n && (r.mu.queue.tail.call != nil) == stands
	}, 20*time.Second, time.Millisecond)
}

// P6: who only waits, and is served, may wait at another relay in the next instant, with the same waiter: whoever served
// it looks at that no more. It is the race detector that tells.
func TestWhoServesLooksNoMoreAtWhomItServed(t *testing.T) {
	t.Parallel()
	for range 20 { // the waiter comes out of a pool, which may answer another
		table := NewTable()
		here, there := table.Use("here"), table.Use("there")
		line, elsewhere := newBooth(), newBooth()
		var all sync.WaitGroup
		take := func(ctx context.Context) { _, _ = here.Take(ctx, like, line) }

		ctx, leave := context.WithCancel(t.Context())
		all.Go(func() { take(ctx) })
		here.awaitLine(t, 1, true)
		all.Go(func() {
			take(t.Context())
			_, _ = there.Take(t.Context(), like, elsewhere)
		})
		here.awaitLine(t, 2, false)
		last, leaveLast := context.WithCancel(t.Context())
		all.Go(func() { take(last) })
		here.awaitLine(t, 3, false)
		leave() // the last stands in line, the first only waits
		here.awaitLine(t, 2, true)

		require.Equal(t, Passed, here.Pass(now, like, gives(1)))
		// Only what the served one says is heard from here on: a lock taken in common would order the two.
		require.Eventually(t, func() bool { return elsewhere.waiting.Load() == 1 }, 20*time.Second, time.Millisecond)
		elsewhere.granted <- nil
		leaveLast()
		all.Wait()
	}
}
