// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// P4, P7: a channel stays subscribed for a while after the last waiter left, so that the next
// need not subscribe; then nothing remains, and who comes after that subscribes anew.
func TestASubscriptionLingersAndEnds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
	d := newDispatcher(t, tuned(t, proxy), io.Discard)
	a, b := targetOf(t, "a"), targetOf(t, "b")
	connections := proxy.Connections()
	live(t, d, a).Close()
	live(t, d, b).Close()
	for range 10 {
		w := live(t, d, a) // woken at once
		w.Close()
	}
	left := time.Now()
	require.Equal(t, 2, proxy.Requests())
	require.Equal(t, 2, d.Channels())
	require.Equal(t, int64(1), subscribed(t, server, a))
	require.Equal(t, int64(1), subscribed(t, server, b))

	await(t, "the end of the subscriptions", func() bool { return subscribed(t, server, a)+subscribed(t, server, b) == 0 })
	require.GreaterOrEqual(t, time.Since(left)+5*time.Millisecond, dispatch.Linger)
	require.Zero(t, d.Channels())
	await(t, "the end of the connection", func() bool { return proxy.Connections() == connections })
	require.Equal(t, 2, proxy.Requests())

	w := live(t, d, a)
	require.Equal(t, 3, proxy.Requests())
	server.MustDo(t, "PUBLISH", a.Channel, "1")
	within(t, "a wake-up", w.C)
}
