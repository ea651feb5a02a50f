// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: a waiter that is not told of its grant, whatever became of the message, finds out by a look, and
// has the lock that was granted to it then, and no later one.
func TestLostGrantIsFoundByALook(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, w *world, p *redistest.Proxy){
		"MessageDropped": func(_ *testing.T, _ *world, p *redistest.Proxy) { p.DropPushes(true) },
		"SubscriptionKilled": func(t *testing.T, w *world, _ *redistest.Proxy) {
			t.Helper()
			w.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
		"ConnectionsCut": func(_ *testing.T, _ *world, p *redistest.Proxy) { p.CutAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			proxy := redistest.NewProxy(t, w.server.Addr())
			proxy.SetMatch(locktest.Runs(scripts.FairLook))
			held := w.hold(t, name)
			got := w.asks(t, locktest.Session(t, proxy), name, 1)
			w.hear(t, 1)
			// The first look comes with the subscription. From then on nobody looks for most of a second.
			redistest.Await(t, "a look", func() bool { return proxy.Replies() > 0 })
			lose(t, w, proxy)
			released := w.view.Now(t)
			require.NoError(t, held.Unlock())
			r := gets(t, got, bound)
			t.Logf("it had the lock %v after the grant", r.at.Sub(granted(r.lease)).Round(time.Millisecond))
			h := w.view.MustHold(t, name)
			require.Equal(t, h.Token, r.lease.Token())
			require.Less(t, granted(r.lease).Sub(released), bound)
			if name == "MessageDropped" {
				redistest.Await(t, "a lost message", func() bool { return proxy.DroppedPushes() > 0 })
			}
			require.NoError(t, r.lease.Unlock())
			w.nothingLeft(t)
		})
	}
}

// P6: a grant between the answer to the entering and the subscription is noticed by the confirmation
// of the subscription: nobody waits until the next look is due.
func TestGrantBeforeTheSubscriptionIsNotMissed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name, soon = "early", 80 * time.Millisecond
	var took []time.Duration
	for begun := time.Now(); len(took) < 8 || slices.Min(took) >= soon && time.Since(begun) < redistest.Patience; {
		proxy := redistest.NewProxy(t, w.server.Addr())
		proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
		held, released := w.hold(t, name), make(chan error, 1)
		var once sync.Once
		proxy.OnRequest(func(int, []string) { // nobody listens yet
			once.Do(func() { released <- held.Unlock() })
		})
		lease, err := fair.New(locktest.Session(t, proxy), name).Lock(locktest.Context(t))
		require.NoError(t, err)
		took = append(took, time.Since(granted(lease)))
		require.NoError(t, <-released)
		require.NoError(t, lease.Unlock())
	}
	t.Logf("from the grant to the lock: %v", took)
	// Who cannot hear yet looks ten times a second, after 80 ms at the earliest. A busy machine makes some
	// of them late; without a look at the confirmation every one is.
	require.Less(t, slices.Min(took), soon)
	w.nothingLeft(t)
}

// P6: a waiter that is told of its grant has the lock then, though the answer to its entering is lost, and
// has it for long enough to renew it.
func TestGrantCountsThoughTheEnterIsNotAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "unanswered"
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(locktest.Runs(scripts.FairLook))
	// A client that waits for longer than the answer takes: it does not find out by itself.
	s := locktest.SessionOf(t, proxy.Client(t, func(o *rueidis.ClientOption) {
		o.ConnWriteTimeout = limit
		signalbox.Tune(o)
	}))
	held, another := w.hold(t, name), w.hold(t, "elsewhere")
	other := w.asks(t, s, "elsewhere", 1)
	w.hear(t, 1)
	redistest.Await(t, "it looks", func() bool { return proxy.Replies() > 0 })
	proxy.SetMatch(locktest.Runs(scripts.FairEnter))
	proxy.Arm(redistest.Fault{Kind: redistest.DelayReply, Delay: 2 * bound})
	got := w.asks(t, s, name, 1)
	next := w.asks(t, w.waiter, name, 2)
	require.NoError(t, held.Unlock())
	r := gets(t, got, bound)
	took := r.at.Sub(granted(r.lease))
	t.Logf("it had the lock %v after the grant", took.Round(time.Millisecond))
	require.ErrorIs(t, r.lease.Unlock(), signalbox.ErrUnconfirmed, "its answer waits behind the other")
	require.NoError(t, gets(t, next, bound).lease.Unlock())
	require.NoError(t, another.Unlock())
	require.ErrorIs(t, gets(t, other, bound).lease.Unlock(), signalbox.ErrUnconfirmed)
	w.nothingLeft(t)
}

// P6: where no message ever arrives, nobody loses its place or its turn.
func TestOrderIsKeptThoughEveryMessageIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name, waiters = "deaf", 8
	held := w.hold(t, name)
	line := make([]<-chan result, waiters)
	for i := range line {
		proxy := redistest.NewProxy(t, w.server.Addr())
		proxy.DropPushes(true)
		line[i] = w.asks(t, locktest.Session(t, proxy), name, i+1)
	}
	require.NoError(t, held.Unlock())
	last, begun := held.Token(), time.Now()
	for _, got := range line {
		r := gets(t, got, bound)
		require.Greater(t, r.lease.Token(), last, "in the order of the line")
		require.Less(t, granted(r.lease).Sub(granted(held)), limit)
		last = r.lease.Token()
		require.NoError(t, r.lease.Unlock())
	}
	t.Logf("%d waiters, each told by a look alone, in %v", waiters, time.Since(begun).Round(time.Millisecond))
	w.nothingLeft(t)
}
