// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P7: however many goroutines come first, the server gets one hello: by its digest and, since it
// does not know that, by its text.
func TestManyFirstCallersSendOneHello(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	sent := server.SentBy(func() {
		var all sync.WaitGroup
		for i := range 1_000 {
			all.Go(func() {
				if err := s.Handshake(t.Context(), fmt.Sprintf("sb:{%d}:lock", i)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
	require.Equal(t, int64(1), sent["evalsha"])
	require.Equal(t, int64(1), sent["eval"])
	require.Equal(t, int64(1), sent["time"])
}

// handshakes calls Handshake on another goroutine.
func handshakes(ctx context.Context, s *session.Session) <-chan error {
	done := make(chan error, 1)
	go func() { done <- s.Handshake(ctx, "sb:{a}:lock") }()
	return done
}

// frozen returns a session whose only connection is made, and freezes its server.
func frozen(t *testing.T) (*redistest.Server, *redistest.Proxy, *session.Session) {
	t.Helper()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	_, err := s.Runner.Run(t.Context(), wire.Call{Script: wire.HelloScript, Keys: []string{"sb:{a}:lock"}})
	require.NoError(t, err)
	proxy.ResetCount()
	server.Freeze()
	return server, proxy, s
}

// The first caller's context ends its own wait, and not the hello that others wait for.
func TestHelloOutlivesTheCallerThatSentIt(t *testing.T) {
	t.Parallel()
	server, proxy, s := frozen(t)
	ctx, cancel := context.WithCancel(t.Context())
	first := handshakes(ctx, s)
	redistest.Await(t, "the hello", func() bool { return proxy.Requests() == 1 })
	second := handshakes(t.Context(), s)
	cancel()
	require.ErrorIs(t, redistest.Receive(t, "the first caller", first), context.Canceled)
	server.Thaw()
	require.NoError(t, redistest.Receive(t, "the second caller", second))
	require.Equal(t, 1, proxy.Requests())
}
