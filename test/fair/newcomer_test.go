// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
	"github.com/signalbox-go/signalbox/test/kit"
)

// Order: a lock whose hold ran out is free with people in line until somebody looks. Who comes in that
// moment, to try or to wait, is not before them, and hands the lock to the first.
func TestNewcomerFindsAFreeLockAndIsNotBeforeTheLine(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(t *testing.T, w *world) <-chan result{
		"Tries": func(t *testing.T, w *world) <-chan result {
			t.Helper()
			_, err := fair.New(w.waiter, "Tries").TryLock(kit.Context(t))
			require.ErrorIs(t, err, signalbox.ErrHeld)
			return nil
		},
		"Waits": func(t *testing.T, w *world) <-chan result {
			t.Helper()
			return w.asks(t, w.waiter, "Waits", 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			holder := redistest.NewProxy(t, w.server.Addr())
			held, err := fair.New(kit.Session(t, holder), name, signalbox.RenewedLease(life/2)).Lock(kit.Context(t))
			require.NoError(t, err)
			holder.HalfOpenAll()
			holder.Refuse()
			first := w.asks(t, w.blindSession(t), name, 1)
			kit.Closed(t, kit.Patience, "the holder is told", held.Done())
			kit.Await(t, kit.Patience, "its hold is over", func() bool { return w.view.MustHold(t, name).ID == "" })
			require.Empty(t, first)
			second := comes(t, w)
			r := gets(t, first, bound)
			require.Equal(t, r.lease.Token(), w.view.MustHold(t, name).Token)
			require.NoError(t, forgive(r.lease.Unlock()))
			if second != nil {
				require.NoError(t, gets(t, second, bound).lease.Unlock())
			}
			w.nothingLeft(t)
		})
	}
}

// blindSession answers a session whose looks do not arrive before the test ends, but for the one that comes
// with the subscription. What it sends after that waits behind them.
func (w *world) blindSession(t *testing.T) *signalbox.Session {
	t.Helper()
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(kit.Runs(scripts.FairLook))
	ends := make(chan struct{})
	proxy.OnRequest(func(k int, _ []string) {
		if k > 1 {
			<-ends
		}
	})
	s := kit.Session(t, proxy)
	t.Cleanup(sync.OnceFunc(func() { close(ends) })) // before the session is closed
	return s
}
