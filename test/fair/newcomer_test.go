// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// Order: a lock whose hold ran out is free with people in line until somebody looks. Who comes in that
// moment, to try or to wait, is not before them, and hands the lock to the first.
func TestNewcomerFindsAFreeLockAndIsNotBeforeTheLine(t *testing.T) {
	t.Parallel()
	for name, comes := range map[string]func(t *testing.T, w *world) <-chan result{
		"Tries": func(t *testing.T, w *world) <-chan result {
			t.Helper()
			_, err := fair.New(w.waiter, "Tries").TryLock(locktest.Context(t))
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
			_, err := fair.New(locktest.Session(t, holder), name).Lock(locktest.Context(t))
			require.NoError(t, err)
			holder.HalfOpenAll()
			holder.Refuse()
			s := w.blindSession(t)
			first := w.asks(t, s, name, 1)
			w.hear(t, 1)
			w.runOut(t, name)
			require.Empty(t, w.view.MustHold(t, name).ID)
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

// runOut ends the hold of a lock now: it would run out by itself at a time at which who waits was not heard of for
// as long, and on a slow machine counts as dead.
func (w *world) runOut(t *testing.T, name string) {
	t.Helper()
	w.server.MustDo(t, "EVAL", `
local time, value = redis.call('TIME'), redis.call('GET', KEYS[1])
local now = time[1] .. string.sub('00000' .. time[2], -6)
redis.call('SET', KEYS[1], string.sub(value, 1, 61) .. now .. string.sub(value, 78), 'KEEPTTL')`, 1, locktest.Key(name))
}

// blindSession answers a session whose looks do not arrive before the test ends. What it sends after the first waits
// behind that.
func (w *world) blindSession(t *testing.T) *signalbox.Session {
	t.Helper()
	proxy := redistest.NewProxy(t, w.server.Addr())
	proxy.SetMatch(locktest.Runs(scripts.FairLook))
	ends := make(chan struct{})
	proxy.OnRequest(func(int, []string) { <-ends })
	s := locktest.Session(t, proxy)
	t.Cleanup(sync.OnceFunc(func() { close(ends) })) // before the session is closed
	return s
}
