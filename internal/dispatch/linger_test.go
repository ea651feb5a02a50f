// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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
	var left time.Time
	for range 10 {
		w := live(t, d, a) // woken at once
		left = time.Now()
		w.Close()
	}
	require.Equal(t, 2, proxy.Requests())
	require.Equal(t, 2, d.Channels())
	require.Equal(t, int64(1), subscribed(t, server, a))
	require.Equal(t, int64(1), subscribed(t, server, b))

	await(t, "the end of the subscriptions", func() bool { return subscribed(t, server, a)+subscribed(t, server, b) == 0 })
	require.GreaterOrEqual(t, time.Since(left)+5*time.Millisecond, dispatch.Linger)
	await(t, "the end of the channels", func() bool { return d.Channels() == 0 })
	await(t, "the end of the connection", func() bool { return proxy.Connections() == connections })
	require.Equal(t, 2, proxy.Requests())

	w := live(t, d, a)
	require.Equal(t, 3, proxy.Requests())
	server.MustDo(t, "PUBLISH", a.Channel, "1")
	within(t, "a wake-up", w.C)
}

// P4, P6: channels that are dropped together leave the others alone, whatever the client speaks.
func TestChannelsEndAlone(t *testing.T) {
	t.Parallel()
	for _, protocol := range redistest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			d := newDispatcher(t, server.Client(t, func(o *rueidis.ClientOption) {
				signalbox.Tune(o)
				protocol.Set(o)
			}), io.Discard)
			stays := live(t, d, targetOf(t, "stays"))
			var waits []*dispatch.Wait
			for i := range 20 {
				waits = append(waits, live(t, d, targetOf(t, fmt.Sprint(i))))
			}
			for _, w := range waits {
				w.Close()
			}
			for i := range waits {
				await(t, "the end of a subscription", func() bool { return subscribed(t, server, targetOf(t, fmt.Sprint(i))) == 0 })
			}
			again := live(t, d, targetOf(t, "0"))
			for name, w := range map[string]*dispatch.Wait{"stays": stays, "0": again} {
				require.False(t, isWoken(w))
				server.MustDo(t, "PUBLISH", targetOf(t, name).Channel, "1")
				within(t, "the wake-up by a message", w.C)
			}
			require.Equal(t, 1, d.Running())
			require.Equal(t, 1, subscribers(t, server))
		})
	}
}
