// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: a waiter of either side that is not told of its grant, whatever became of the message, finds out by a look, and has
// what was granted to it then, and no later one.
func TestALostGrantIsFoundByALook(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, w *world, p *redistest.Proxy){
		"MessageDropped": func(_ *testing.T, _ *world, p *redistest.Proxy) { p.DropPushes(true) },
		"SubscriptionKilled": func(t *testing.T, w *world, _ *redistest.Proxy) {
			t.Helper()
			w.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
		"ConnectionsCut": func(_ *testing.T, _ *world, p *redistest.Proxy) { p.CutAll() },
	} {
		for _, side := range []locktest.Primitive{locktest.Writer(), locktest.Reader()} {
			t.Run(name+"/"+side.Name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				proxy := redistest.NewProxy(t, w.server.Addr())
				proxy.SetMatch(locktest.Runs(scripts.RWLockLook))
				held := takes(t, locktest.Writer(), w.holder, name)
				got := w.asks(t, side, locktest.Session(t, proxy), name, 1)
				redistest.Await(t, "it hears of grants", func() bool {
					channels, ok := w.server.MustDo(t, "PUBSUB", "CHANNELS", "sb:grants:*").([]any)
					return ok && len(channels) == 1
				})
				// The first look comes with the subscription. From then on nobody looks for most of a second.
				redistest.Await(t, "a look", func() bool { return proxy.Replies() > 0 })
				lose(t, w, proxy)
				require.NoError(t, held.Unlock())
				lease := gets(t, got, bound)
				require.Greater(t, lease.Token(), held.Token())
				require.Equal(t, w.view.MustHold(t, name).Token, lease.Token())
				if name == "MessageDropped" {
					redistest.Await(t, "a lost message", func() bool { return proxy.DroppedPushes() > 0 })
				}
				require.NoError(t, lease.Unlock())
				w.nothingLeft(t)
			})
		}
	}
}

// P6: where no message ever arrives, readers that wait together come in together, and writers in their turn.
func TestPhasesAreKeptThoughEveryMessageIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const name = "deaf"
	held := takes(t, locktest.Writer(), w.holder, name)
	var waiting []<-chan result
	for n, side := range []locktest.Primitive{locktest.Writer(), locktest.Reader(), locktest.Writer(), locktest.Reader()} {
		proxy := redistest.NewProxy(t, w.server.Addr())
		proxy.DropPushes(true)
		waiting = append(waiting, w.asks(t, side, locktest.Session(t, proxy), name, n+1))
	}
	require.NoError(t, held.Unlock())
	one, other := gets(t, waiting[1], bound), gets(t, waiting[3], bound) // both readers, beside each other
	require.NoError(t, one.Unlock())
	require.NoError(t, other.Unlock())
	first := gets(t, waiting[0], bound)
	require.Greater(t, first.Token(), max(one.Token(), other.Token()))
	require.NoError(t, first.Unlock())
	second := gets(t, waiting[2], bound)
	require.Greater(t, second.Token(), first.Token())
	require.NoError(t, second.Unlock())
	w.nothingLeft(t)
}
