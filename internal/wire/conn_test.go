// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/wire"
)

// Calls that come while the client connects share the attempt: the end of the one that began it is
// not theirs.
func TestConnectionIsMadeThoughItsFirstCallEnds(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	next := func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
		require.NoError(t, ctx.Err())
		deadline, dated := ctx.Deadline()
		require.Equal(t, dialer.Timeout > 0, dated)
		require.LessOrEqual(t, time.Until(deadline), dialer.Timeout)
		return nil, io.EOF
	}
	for _, limit := range []time.Duration{0, time.Minute} {
		_, err := wire.NewConnector(next, wire.ConnectorOptions{}).Dial(ended, "", &net.Dialer{Timeout: limit}, nil)
		require.ErrorIs(t, err, io.EOF)
	}
}

// P10: what a server sends before the first request is read after that; Close waits for nothing.
func TestConnectionIsReadAfterItWasWritten(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(net.Conn) error{
		"Write": func(c net.Conn) error { _, err := c.Write([]byte("?")); return err },
		"Close": net.Conn.Close,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer listener.Close()
			conn, err := wire.NewConnector(nil, wire.ConnectorOptions{}).Dial(context.Background(), listener.Addr().String(), &net.Dialer{}, nil)
			require.NoError(t, err)
			defer conn.Close()
			server, err := listener.Accept()
			require.NoError(t, err)
			defer server.Close()
			_, err = io.WriteString(server, "no")
			require.NoError(t, err)
			read := make(chan string, 1)
			go func() {
				text := make([]byte, 2)
				_, _ = io.ReadFull(conn, text)
				read <- string(text)
			}()
			select {
			case text := <-read:
				require.Fail(t, "read before anything was written", text)
			default:
			}
			require.NoError(t, begin(conn))
			text := <-read
			if name == "Write" {
				require.Equal(t, "no", text)
			}
		})
	}
}

// P10: what is no reply ends its connection. The client would panic at it, or allocate as much memory as it announces.
func TestWhatIsNoReplyEndsItsConnection(t *testing.T) {
	t.Parallel()
	for _, odd := range []string{
		"+OK\r\n+OK\r\n", "-ERR a\r\n-ERR b\r\n", "$-7\r\n", "*-7\r\n", "%-1\r\n", "|-1\r\n", ">-7\r\n", "$9223372036854775807\r\n", "*9223372036854775807\r\n",
		"$536870913\r\n", "*16777217\r\n", "*1\r\n*16777217\r\n", "!99999999999\r\n", "HTTP/1.1 400 Bad Request\r\n",
	} {
		for _, resp2 := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeServer{reply: welcomes}
				client := f.client(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableRetry = resp2, true })
				defer client.Close()
				get := client.B().Get().Key("a").Build().Pin()
				require.NoError(t, client.Do(t.Context(), get).Error())
				before := f.dialCount()
				f.set(nil, func(request string) string {
					if strings.Contains(request, "GET") {
						return odd
					}
					return welcomes(request)
				})
				err := client.Do(t.Context(), get).Error()
				for again := 0; err == nil && again < 2; again++ { // the first of two replies may have come by itself
					err = client.Do(t.Context(), get).Error()
				}
				require.Error(t, err, "%q", odd)
				f.set(nil, welcomes)
				require.NoError(t, client.Do(t.Context(), get).Error())
				require.Greater(t, f.dialCount(), before)
			})
		}
	}
}

// A connection that cannot be replaced, since a reply is due all the time, is a failure until it can.
func TestLateRepliesKeepAConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{reply: welcomes}
		client := f.client(t, func(o *rueidis.ClientOption) { o.ConnWriteTimeout = time.Minute })
		defer time.Sleep(time.Minute) // the server still waits before it replies
		defer client.Close()
		r := wire.NewRunner(client)
		call := func(latency time.Duration) {
			f.mu.Lock()
			f.latency = latency
			f.mu.Unlock()
			var callers sync.WaitGroup
			until := time.Now().Add(30 * time.Second)
			for i := range 3 {
				callers.Go(func() {
					time.Sleep(time.Duration(i) * latency / 3)
					for time.Now().Before(until) {
						_, _ = r.Run(t.Context(), hello("key")) // the server replies alike to requests that come in one piece
						time.Sleep(time.Millisecond)
					}
				})
			}
			callers.Wait()
		}
		call(1500 * time.Millisecond)
		found, _ := wire.Failures(client)
		require.ErrorContains(t, found[wire.Failure{Kind: wire.FailureReplacement, Address: "far:1"}], "replies are due")
		call(time.Millisecond)
		found, _ = wire.Failures(client)
		require.Empty(t, found)
	})
}
