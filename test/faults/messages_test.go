// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// aLook is how long after a release its waiter has the lock at the latest, if nobody tells it: the second between
// looks, and much more for a busy machine. Without a look it would wait for as long as the holder's key had left.
const aLook = 10 * time.Second

// queue is one lock with a holder and a waiter elsewhere.
type queue struct {
	name string
	held signalbox.Lease
	got  chan result
}

type result struct {
	lease signalbox.Lease
	err   error
	at    time.Time
}

// queues makes n locks that the world's holder holds and the session waits for.
func (w *world) queues(t *testing.T, n int, waiter *signalbox.Session, options ...signalbox.LockOption) []*queue {
	t.Helper()
	queues := make([]*queue, n)
	for i := range queues {
		q := &queue{name: fmt.Sprint("queue/", i), got: make(chan result, 1)}
		var err error
		q.held, err = reentrant.New(w.holder, q.name, options...).Lock(locktest.Context(t))
		require.NoError(t, err)
		go func() {
			lease, err := reentrant.New(waiter, q.name).Lock(locktest.Context(t))
			q.got <- result{lease, err, time.Now()}
		}()
		queues[i] = q
	}
	return queues
}

// waited answers how long after begun each waiter had its lock, the longest last.
func waited(t *testing.T, queues []*queue, begun time.Time) []time.Duration {
	t.Helper()
	var took []time.Duration
	for _, q := range queues {
		r := <-q.got
		require.NoError(t, r.err, q.name)
		require.Greater(t, r.lease.Token(), q.held.Token())
		require.NoError(t, locktest.Confirmed(r.lease.Unlock()))
		took = append(took, r.at.Sub(begun))
	}
	slices.Sort(took)
	return took
}

// listening waits until the server has that many subscriptions.
func (w *world) listening(t *testing.T, queues []*queue) {
	t.Helper()
	redistest.Await(t, "everybody listens", func() bool {
		channels, ok := w.server.MustDo(t, "PUBSUB", "CHANNELS", "*unlocked").([]any)
		return ok && len(channels) == len(queues)
	})
}

func release(t *testing.T, queues []*queue) (begun time.Time) {
	t.Helper()
	begun = time.Now()
	for _, q := range queues {
		require.NoError(t, q.held.Unlock())
	}
	return begun
}

// P6: waiters whose subscription breaks, in whatever way, get the lock all the same.
func TestWaiterOutlivesItsSubscription(t *testing.T) {
	t.Parallel()
	for name, breaks := range map[string]func(*testing.T, *world, link){
		"KilledByTheServer": func(t *testing.T, w *world, _ link) {
			t.Helper()
			w.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
		"Cut":      func(_ *testing.T, _ *world, l link) { l.proxy.CutAll() },
		"HalfOpen": func(_ *testing.T, _ *world, l link) { l.proxy.HalfOpenAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name != "KilledByTheServer" {
				redistest.Slow(t, "a connection that broke is made anew after a pause, and one that is silent found after a second")
			}
			w := newWorld(t)
			link := w.links(t, 1, redistest.Commands(subscribe))[0]
			queues := w.queues(t, 16, link.session)
			w.listening(t, queues)
			breaks(t, w, link)
			took := waited(t, queues, release(t, queues))
			t.Logf("%v in the middle, %v at most", took[len(took)/2], took[len(took)-1])
			// Half open, two seconds go by before the connections of the tries are given up too.
			require.Less(t, took[len(took)-1], 2*aLook)
		})
	}
}
