// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"fmt"
	"io"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P4, P6: channels that are dropped together leave the others alone, whatever the client speaks.
func TestChannelsEndAlone(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, "a connection with a dropped channel is replaced after ten seconds, and a real server shows how in each protocol")
	for _, protocol := range redistest.Protocols() {
		t.Run(protocol.Name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			d := newDispatcher(t, server.Client(t, func(o *rueidis.ClientOption) {
				signalbox.Tune(o)
				protocol.Set(o)
			}), io.Discard)
			stays := subscribed(t, d, targetOf(t, "stays"))
			var waits []*dispatch.Wait
			for i := range 20 {
				waits = append(waits, subscribed(t, d, targetOf(t, fmt.Sprint(i))))
			}
			for _, w := range waits {
				w.Close()
			}
			for i := range waits {
				redistest.Await(t, "the end of a subscription", func() bool { return locktest.Listeners(t, server, targetOf(t, fmt.Sprint(i)).Channel) == 0 })
			}
			redistest.Receive(t, "the confirmation on another connection", stays.C)
			again := subscribed(t, d, targetOf(t, "0"))
			for name, w := range map[string]*dispatch.Wait{"stays": stays, "0": again} {
				require.False(t, locktest.IsClosed(w.C))
				server.MustDo(t, "PUBLISH", targetOf(t, name).Channel, "1")
				redistest.Receive(t, "the wake-up by a message", w.C)
			}
			require.Equal(t, 1, d.Running())
			require.Equal(t, 1, subscribers(t, server))
		})
	}
}
