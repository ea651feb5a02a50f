// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/clock"
)

// piped makes a connection of a Connector, and returns the server's end of it.
func piped(t *testing.T) (client, server net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	client, err := NewConnector(func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return here, nil }, ConnectorOptions{}).Dial(t.Context(), "", &net.Dialer{}, nil)
	require.NoError(t, err)
	go func() {
		_, _ = client.Write([]byte("?"))
		for buffer := make([]byte, 1); ; {
			if _, err := client.Read(buffer); err != nil {
				_ = client.Close()
				return
			}
		}
	}()
	_, err = there.Read(make([]byte, 1))
	require.NoError(t, err)
	return client, there
}

// replies reports whether the other side of a connection still reads.
func replies(server net.Conn) bool {
	_, err := server.Write([]byte("!"))
	return err == nil
}

func TestConnectionThatStaysSilentAfterASleepIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, silent := piped(t)
		_, speaking := piped(t)
		time.Sleep(time.Second)
		before := clock.Now().Mono()
		time.Sleep(time.Second)
		_, fresh := piped(t)
		SuspectConnections(before)
		time.Sleep(ReplyAfterSleep / 2)
		require.True(t, replies(speaking))
		synctest.Wait()
		CloseSilentConnections()
		require.Len(t, openConns.conns, 3, "it has some time left")
		time.Sleep(ReplyAfterSleep / 2)
		CloseSilentConnections()
		require.False(t, replies(silent))
		require.True(t, replies(speaking))
		require.True(t, replies(fresh))

		SuspectConnections(before) // another session noticed the same sleep
		time.Sleep(ReplyAfterSleep)
		CloseSilentConnections()
		require.True(t, replies(speaking), "it has proved itself since")
		require.True(t, replies(fresh))
		_, _ = speaking.Close(), fresh.Close()
		synctest.Wait()
		require.Empty(t, openConns.conns)
	})
}
