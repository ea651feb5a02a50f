// SPDX-License-Identifier: Apache-2.0

package memory_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/reentrant"
	"github.com/signalbox-go/signalbox/signalboxtest/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lock excludes other sessions, is handed over, and ends by the clock; and nobody without the URL gets in.
func TestALockOnAServerInMemory(t *testing.T) {
	t.Parallel()
	server, err := memory.Start()
	require.NoError(t, err)
	defer server.Close()
	var locks []*reentrant.Lock
	for range 2 {
		session, err := signalbox.Dial(t.Context(), server.URL())
		require.NoError(t, err)
		defer func() { require.NoError(t, session.Close(context.Background())) }()
		locks = append(locks, reentrant.New(session, "a", signalbox.WithFixedLease(time.Second)))
	}
	lease, err := locks[0].Lock(t.Context())
	require.NoError(t, err)
	_, err = locks[1].TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrHeld)
	next, err := locks[1].Lock(t.Context()) // when the lease has ended
	require.NoError(t, err)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Unlock())

	_, host, _ := strings.Cut(server.URL(), "@")
	_, err = signalbox.Dial(t.Context(), "redis://"+host)
	require.ErrorIs(t, err, signalbox.ErrDenied)
}

// Whoever has no password does no harm: a request that is none costs its connection, and not the process. And a client that
// does not read holds up no other.
func TestNoClientStopsAServerInMemory(t *testing.T) {
	t.Parallel()
	server, err := memory.Start()
	require.NoError(t, err)
	defer server.Close()
	session, err := signalbox.Dial(t.Context(), server.URL())
	require.NoError(t, err)
	defer func() { require.NoError(t, session.Close(context.Background())) }()
	address, err := url.Parse(server.URL())
	require.NoError(t, err)
	for _, request := range []string{
		"*0\r\n", "*-1\r\n", "*1\r\n$9223372036854775807\r\n", "*1\r\n$-1\r\n", "*2\r\n$8388608\r\n", "*1000000\r\n$1\r\n", "*1\r\n+PING\r\n",
		"*1\r\n$1000000000\r\n", "*x\r\n", "\r\n", "*1\n", "*" + strings.Repeat("1", 1000), "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address.Host)
		require.NoError(t, err)
		_, err = io.WriteString(conn, request)
		require.NoError(t, err)
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Second)))
		if request == "*2\r\n$8388608\r\n" { // the largest that may come
			_, err = io.WriteString(conn, strings.Repeat("x", 8<<20)+"\r\n$1\r\n")
			require.NoError(t, err)
		}
		_, err = conn.Read(make([]byte, 1))
		require.Error(t, err, request)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, request)
		require.NoError(t, conn.Close())
	}

	dial := func() net.Conn {
		conn, err := net.Dial("tcp", address.Host)
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	request := func(arguments ...string) string {
		text := fmt.Sprintf("*%d\r\n", len(arguments))
		for _, a := range arguments {
			text += fmt.Sprintf("$%d\r\n%s\r\n", len(a), a)
		}
		return text
	}
	password, _ := address.User.Password()
	_, err = io.WriteString(dial(), request("AUTH", password)+request("SUBSCRIBE", "c"))
	require.NoError(t, err)
	publisher := dial()
	require.NoError(t, publisher.SetDeadline(time.Now().Add(30*time.Second)))
	replies := bufio.NewReader(publisher)
	for i := range 20 { // more than the system keeps for a client
		text := request("PUBLISH", "c", strings.Repeat("x", 1<<20))
		if i == 0 {
			text = request("AUTH", password)
		}
		_, err = io.WriteString(publisher, text)
		require.NoError(t, err)
		_, err = replies.ReadString('\n')
		require.NoError(t, err, "the client that does not read holds up no other")
	}
	lease, err := reentrant.New(session, "a").TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock())
}

func BenchmarkPair(b *testing.B) {
	server, err := memory.Start()
	require.NoError(b, err)
	defer server.Close()
	session, err := signalbox.Dial(b.Context(), server.URL())
	require.NoError(b, err)
	defer session.Close(context.Background())
	for b.Loop() {
		lease, err := reentrant.New(session, "a").Lock(b.Context())
		require.NoError(b, err)
		require.NoError(b, lease.Unlock())
	}
}

func Example() {
	server, err := memory.Start()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	session, err := signalbox.Dial(context.Background(), server.URL())
	if err != nil {
		panic(err)
	}
	defer session.Close(context.Background())
	_ = reentrant.New(session, "order/42").Do(context.Background(), func(context.Context, signalbox.Lease) error {
		fmt.Println("held")
		return nil
	})
	// Output: held
}
