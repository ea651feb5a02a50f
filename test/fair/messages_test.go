// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6: a waiter that gets no message of its grant finds out by a poll, and has the lock that was granted to it
// then, and no later one.
func TestLostGrantIsFoundByAPoll(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(t *testing.T, f *fixture, p *redistest.Proxy){
		"SubscriptionKilled": func(t *testing.T, f *fixture, _ *redistest.Proxy) {
			t.Helper()
			f.server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		},
		"ConnectionsCut": func(_ *testing.T, _ *fixture, p *redistest.Proxy) { p.CutAll() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			proxy := redistest.NewProxy(t, f.server.Addr())
			proxy.SetMatch(locktest.RunsScript(scripts.LockPoll))
			held := f.hold(t, name)
			got := f.queueFor(t, locktest.Session(t, proxy), name, 1)
			f.awaitListeners(t, 1)
			// The first poll comes with the subscription. The next one comes most of a second later.
			redistest.Await(t, "a poll", func() bool { return proxy.Replies() > 0 })
			lose(t, f, proxy)
			require.NoError(t, held.Unlock())
			lease := locktest.MustHave(t, got)
			h := f.view.MustHold(t, name)
			require.Equal(t, h.Token, lease.Token())
			require.NoError(t, lease.Unlock())
			f.nothingLeft(t)
		})
	}
}
