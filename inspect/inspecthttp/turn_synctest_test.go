// SPDX-License-Identifier: Apache-2.0

package inspecthttp

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
)

func TestPagesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := served{New(nil, Options{}), t, nil, nil}
		for range maxPages {
			s.pages <- struct{}{}
		}
		begun := time.Now()
		w := s.get("/sessions")
		require.Equal(t, []any{http.StatusServiceUnavailable, pageTimeout, "5"}, []any{w.Code, time.Since(begun), w.Header().Get("Retry-After")})
		<-s.pages
		require.NotContains(t, s.get("/sessions").Body.String(), "too many")
		require.Len(t, s.pages, maxPages-1, "a page gives its turn back")
		time.Sleep(2 * keptFor) // nothing is left of the list
	})
}

// A browser reads a page again without end if the time is more than 2^31 ms.
func TestAPageIsReadAgainWithinTheHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := served{New(nil, Options{Every: 1000 * time.Hour}), t, nil, nil}
		require.Contains(t, s.get("/").Body.String(), `data-seconds="3600"`)
	})
}

// pipes is a listener for connections in memory, which keep nothing that is not read.
type pipes chan net.Conn

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (p pipes) Close() error {
	close(p)
	return nil
}

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serveOn serves h on connections in memory until the bubble ends. dial makes one, and sends a request.
func serveOn(t *testing.T, web *http.Server) (dial func(request string) net.Conn) {
	t.Helper()
	accepted := make(pipes)
	served := make(chan error)
	go func() { served <- web.Serve(accepted) }()
	t.Cleanup(func() {
		_ = web.Close()
		<-served
	})
	return func(request string) net.Conn {
		client, server := net.Pipe()
		t.Cleanup(func() { _ = client.Close() })
		accepted <- server
		_, err := io.WriteString(client, request)
		require.NoError(t, err)
		return client
	}
}

// A client that reads nothing, or sends its form slowly, costs nobody else a turn for longer than a page may take to read.
func TestASlowClientKeepsNoTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(nil, Options{AuthorizeBreak: func(*http.Request, inspect.Entry) error { return nil }})
		dial := serveOn(t, &http.Server{Handler: h, ReadHeaderTimeout: time.Second})
		for range maxPages {
			dial("POST /break HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nkey=")
		}
		synctest.Wait()
		require.Empty(t, h.pages, "a form is read before it has a turn")

		large := fmt.Sprintf("GET /?prefix=%s HTTP/1.1\r\nHost: a\r\n\r\n", strings.Repeat("a", 100<<10))
		for range maxPages {
			dial(large)
		}
		time.Sleep(time.Second)
		require.Len(t, h.pages, maxPages)
		time.Sleep(writeTimeout)
		require.Empty(t, h.pages)

		conn := dial("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		replies := bufio.NewReader(conn)
		for range 2 { // the limit was that of one page
			reply, err := http.ReadResponse(replies, nil)
			require.NoError(t, err)
			_, err = io.Copy(io.Discard, reply.Body)
			require.NoError(t, err)
			time.Sleep(2 * writeTimeout)
			_, err = io.WriteString(conn, "GET /sessions HTTP/1.1\r\nHost: a\r\n\r\n")
			require.NoError(t, err)
		}
	})
}
