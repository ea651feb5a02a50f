// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/internal/stamp"
)

// crowd is users of one side in a closed loop, and when each was let in.
type crowd struct {
	stop    context.CancelFunc
	running sync.WaitGroup

	mu struct {
		sync.Mutex
		grants []stamp.Stamp
	}
}

// circles lets n users of one side, in four sessions, have a lock again and again until the crowd is told to stop.
func (w *world) circles(t *testing.T, side locktest.Primitive, name string, n int, options ...signalbox.LockOption) *crowd {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	c := &crowd{stop: stop}
	client := w.server.Client(t, locktest.Steady)
	sessions := make([]*signalbox.Session, 4)
	for i := range sessions {
		sessions[i] = locktest.Session(t, w.server)
	}
	for i := range n {
		lock := side.New(sessions[i%len(sessions)], name, options...)
		c.running.Go(func() {
			for ctx.Err() == nil {
				lease, err := lock.Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				c.mu.Lock()
				c.mu.grants = append(c.mu.grants, granted(lease))
				c.mu.Unlock()
				// Some work, so that there is somebody to wait for.
				for range 2 {
					_ = client.Do(context.Background(), client.B().Ping().Build()).Error()
				}
				if err := forgive(lease.Unlock()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	t.Cleanup(c.ends)
	redistest.AwaitFor(t, limit, "a crowd that goes round", func() bool { return c.len() >= 4*n })
	return c
}

func (c *crowd) ends() {
	c.stop()
	c.running.Wait()
}

func (c *crowd) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.mu.grants)
}

// between answers how many were let in after one instant and before another, each grant once.
func (c *crowd) between(after, before stamp.Stamp) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []stamp.Stamp
	for _, at := range c.mu.grants {
		if after < at && at < before {
			found = append(found, at)
		}
	}
	slices.Sort(found)
	return len(slices.Compact(found))
}

// wait is from when somebody got in line to when the server let it in.
type wait struct{ from, to stamp.Stamp }

// waits lets a user have the lock until it has waited in line n times, and answers these waits.
func (w *world) waits(t *testing.T, side locktest.Primitive, name string, n int, options ...signalbox.LockOption) (seen []wait) {
	t.Helper()
	lines := []string{locktest.Keys(name).Writers(), locktest.Keys(name).Readers()}
	lock := side.New(w.other, name, options...)
	for begun := time.Now(); len(seen) < n; {
		require.Less(t, time.Since(begun), limit, "it does not wait")
		got := begins(long(t), lock)
		var from stamp.Stamp
		redistest.AwaitFor(t, limit, "a turn", func() bool {
			if at, stands := w.ticket(t, w.other, lines...); stands {
				from = at
			}
			return len(got) > 0
		})
		lease := gets(t, got, limit)
		if from > 0 {
			seen = append(seen, wait{from, granted(lease)})
		}
		require.NoError(t, forgive(lease.Unlock()))
	}
	return seen
}

// Order: a writer that waits closes the door. With 64 readers in a closed loop nobody is let in from when the
// writer gets in line to when it is let in: it waits for those who were inside, one phase.
func TestAWriterWaitsForOnePhaseOfReaders(t *testing.T) {
	t.Parallel()
	for side, options := range map[string][]signalbox.LockOption{"HoldsOfTheirOwn": {own()}, "SharedHolds": nil} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			readers := w.circles(t, locktest.Reader(), "door", 64, options...)
			for _, waited := range w.waits(t, locktest.Writer(), "door", 20) {
				require.Zero(t, readers.between(waited.from, waited.to), "readers were let in while a writer waited")
			}
			before := readers.len()
			redistest.AwaitFor(t, limit, "readers go on", func() bool { return readers.len() > before })
			readers.ends()
			w.nothingLeft(t)
		})
	}
}

// Order: all readers that wait when a writer is done come in. With 8 writers in a closed loop a reader sees one of
// them let in, at the most, between when it gets in line and when it is let in.
func TestAReaderWaitsForOneWriter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	writers := w.circles(t, locktest.Writer(), "turns", 8)
	for _, waited := range w.waits(t, locktest.Reader(), "turns", 20, own()) {
		require.LessOrEqual(t, writers.between(waited.from, waited.to), 1, "more than one writer was let in while a reader waited")
	}
	before := writers.len()
	redistest.AwaitFor(t, limit, "writers go on", func() bool { return writers.len() > before })
	writers.ends()
	w.nothingLeft(t)
}

// Order: readers and writers, many of both, in a closed loop: neither side waits for more than a phase of the other.
func TestNeitherSideStarves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	readers := w.circles(t, locktest.Reader(), "both", 32, own())
	writers := w.circles(t, locktest.Writer(), "both", 4)
	for _, waited := range w.waits(t, locktest.Reader(), "both", 10, own()) {
		require.LessOrEqual(t, writers.between(waited.from, waited.to), 1)
	}
	// A writer waits for the writers before it as well, and between two of them there is a phase of readers.
	for _, waited := range w.waits(t, locktest.Writer(), "both", 10) {
		require.LessOrEqual(t, writers.between(waited.from, waited.to), 4, "a writer came in out of turn")
	}
	readers.ends()
	writers.ends()
	w.nothingLeft(t)
}
