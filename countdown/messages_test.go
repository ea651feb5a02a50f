// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P6: waiters without messages poll: with WithPolling, and where subscribing or publishing is denied.
func TestWaitersWithoutMessagesPoll(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		denied  string
		options []signalbox.SessionOption
	}{
		"Polling":     {"+@all", []signalbox.SessionOption{signalbox.WithPolling()}},
		"NoSubscribe": {"-subscribe", nil}, "NoPublish": {"-publish", nil}, "NoChannel": {"resetchannels", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newSession(t, as(server, server, c.denied), c.options...)
			r := mustStart(t, countdown.New(s, "a"), 2)
			waiting := waitLater(locktest.Context(t), r)
			mustCount(t, r, 1, "x")
			mustCount(t, r, 0, "y")
			server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub") // NoPublish: a new subscription polls at once
			require.NoError(t, redistest.Receive(t, "a poll", waiting))
		})
	}
}

// P6: a subscription that is killed is renewed, and a poll finds what was missed meanwhile.
func TestKilledSubscriptionLosesNoWaiter(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a")
	for i := range 4 { // it is left alone for longer each time
		r := mustStart(t, l, 1)
		waiting := listening(t, s, r)
		server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub")
		mustCount(t, r, 0, fmt.Sprint(i))
		require.NoError(t, redistest.Receive(t, "the opening", waiting))
	}
}
