// SPDX-License-Identifier: Apache-2.0

package dispatch_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/dispatch"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// A command that was sent and has a reply must not be reused: a client may send it again when its connection
// breaks before all replies have come.
func TestSubscribeCommandIsNotReused(t *testing.T) {
	t.Parallel()
	client, release := steady(t, redistest.Start(t)).Dedicate()
	t.Cleanup(release)
	both := []rueidis.Completed{client.B().Subscribe().Channel("a").Build(), client.B().Subscribe().Channel("b").Build()}
	_, err := dispatch.SendCommands(t.Context(), client, both)
	require.NoError(t, err)
	for i, channel := range []string{"a", "b"} {
		require.Equal(t, []string{"SUBSCRIBE", channel}, both[i].Commands())
	}
}

// A connection that breaks between the replies is an error, whichever of them had come.
func TestSubscribeFailsIfItsConnectionBreaks(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.SetMatch(redistest.Commands("SUBSCRIBE"))
	for n := range 20 {
		armed := proxy.Arm(redistest.Fault{Kind: redistest.CutAfterReply})
		client, release := steady(t, proxy).Dedicate()
		_, err := dispatch.SendCommands(t.Context(), client, []rueidis.Completed{
			client.B().Subscribe().Channel("a").Build(), client.B().Subscribe().Channel("b").Build(),
		})
		require.Error(t, err, n)
		redistest.Receive(t, "the cut", armed.Fired())
		client.Close()
		release()
	}
}
