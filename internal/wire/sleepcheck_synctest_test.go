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

	"github.com/signalbox-go/signalbox/internal/timers"
)

// connected makes a connection of a Connector, and returns the server's end of it.
func connected(t *testing.T) (client, server net.Conn) {
	t.Helper()
	near, far := net.Pipe()
	dial := func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return near, nil }
	client, err := NewConnector(dial, ConnectorOptions{}).Dial(t.Context(), "", &net.Dialer{}, nil)
	require.NoError(t, err)
	return client, far
}

// piped makes a connection that is read until it ends.
func piped(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server = connected(t)
	go func() {
		_, _ = client.Write([]byte("?"))
		for buffer := make([]byte, 1); ; {
			if _, err := client.Read(buffer); err != nil {
				_ = client.Close()
				return
			}
		}
	}()
	_, err := server.Read(make([]byte, 1))
	require.NoError(t, err)
	return client, server
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
		before := timers.Mono()
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

const (
	ping = "*1\r\n$4\r\nPING\r\n"
	pong = "+PONG\r\n"
)

// A call that is sent when the time after a sleep is nearly over has that time from its sending on.
func TestCallSentAfterASleepHasItsTimeForTheReply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := pinged(t)
		SuspectConnections(timers.Mono() + 1)
		time.Sleep(ReplyAfterSleep - time.Nanosecond)
		call(t, client, server)
		time.Sleep(time.Nanosecond)
		require.Equal(t, ReplyAfterSleep-time.Nanosecond, CloseSilentConnections(), "the call was sent a nanosecond ago")
		reply(t, client, server)
		time.Sleep(ReplyAfterSleep)
		require.Zero(t, CloseSilentConnections(), "it has proved itself")

		SuspectConnections(timers.Mono() + 1)
		call(t, client, server)
		time.Sleep(ReplyAfterSleep / 2)
		go func() { _, _ = server.Read(make([]byte, len(ping))) }()
		_, err := client.Write([]byte(ping))
		require.NoError(t, err, "a later call gives the connection no more time")
		time.Sleep(ReplyAfterSleep / 2)
		require.Zero(t, CloseSilentConnections())
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// A call that comes while a connection without calls is given up was not sent, and can be sent on another one.
func TestCallOnAConnectionGivenUpAfterASleepIsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := pinged(t)
		SuspectConnections(timers.Mono() + 1)
		time.Sleep(ReplyAfterSleep)
		require.Zero(t, CloseSilentConnections())
		_, err := client.Write([]byte(ping))
		require.ErrorIs(t, err, errUnsent)
		require.NoError(t, client.Close())
	})
}

// pinged makes a connection that has had one call.
func pinged(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client, server = connected(t)
	call(t, client, server)
	reply(t, client, server)
	return client, server
}

// call sends a call, which the server reads and does not reply to.
func call(t *testing.T, client, server net.Conn) {
	t.Helper()
	go func() { _, _ = server.Read(make([]byte, len(ping))) }()
	_, err := client.Write([]byte(ping))
	require.NoError(t, err)
}

// reply lets the client read a reply.
func reply(t *testing.T, client, server net.Conn) {
	t.Helper()
	go func() { _, _ = server.Write([]byte(pong)) }()
	_, err := client.Read(make([]byte, len(pong)))
	require.NoError(t, err)
}
