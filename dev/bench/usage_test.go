// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// What a proxy sees on the wire is what the usage calls requests, and what the server
// executes beyond that is what scripts call.
func TestRequestsAreWhatCrossesTheWire(t *testing.T) {
	t.Parallel()
	for _, impl := range implementations() {
		t.Run(impl.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server.Addr())
			p, err := impl.start(setup{addr: proxy.Addr(), lease: tiny().lease})
			require.NoError(t, err)
			defer func() { require.NoError(t, p.close()) }()
			require.NoError(t, warm(t.Context(), p))

			proxy.SetMatch(func([]string) bool { return true })
			proxy.ResetCount()
			m, err := begin(server)
			require.NoError(t, err)
			begun := proxy.Requests()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			const times = 20
			l := p.locker(ctx, "counted")
			for range times {
				unlock, err := l.Lock(ctx)
				require.NoError(t, err)
				require.NoError(t, unlock())
			}
			ending := proxy.Requests()
			used, err := m.end(impl.sends)
			require.NoError(t, err)
			// A ping of a client that a stalled machine made wait may cross the wire while the server is asked.
			require.GreaterOrEqual(t, used.requests, int64(ending-begun))
			require.LessOrEqual(t, used.requests, int64(proxy.Requests()))
			require.GreaterOrEqual(t, used.requests, int64(2*times))
			require.Greater(t, used.commands, used.requests)
		})
	}
}
