// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
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

// The error about a port without TLS says how to get TLS. It never says to leave it out, which would send the password in the clear.
func TestErrorsOfPlainPortsNeverAdviseAgainstTLS(t *testing.T) {
	t.Parallel()
	faults := map[string]error{"a reply": tls.RecordHeaderError{Msg: "no TLS"}, "silence": context.DeadlineExceeded}
	for fault, err := range faults {
		for _, c := range []struct{ address, masterSet, says string }{
			{"seed:1", "", "name the server's TLS port"},
			{"found:1", "", "set tls-cluster yes at the nodes of the cluster"},
			{"seed:1", "main", "name the server's TLS port"},
			{"found:1", "main", "set tls-replication yes at the servers and the sentinels"},
		} {
			o := rueidis.ClientOption{InitAddress: []string{"seed:1"}, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
			o.Sentinel.MasterSet = c.masterSet
			o.DialCtxFn = func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return nil, err }
			r := wire.NewDialRecorder(&o)
			_, dialErr := r.Dial(t.Context(), c.address, &o.Dialer, o.TLSConfig)
			require.Error(t, dialErr, fault)
			explained := r.Explain(t.Context(), errors.New("the client's own words"))
			require.ErrorContains(t, explained, c.address)
			require.ErrorContains(t, explained, c.says)
			require.NotContains(t, explained.Error(), "redis:// instead of")
		}
		require.NotContains(t, wire.Remedy(err), "without TLS")
	}
}
