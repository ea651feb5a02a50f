// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// quiet is how long nothing must happen. What is tested takes below 1 ms.
const quiet = 60 * time.Millisecond

// incr is a script that counts how often it runs, in the key n.
const incr = "return redis.call('INCR', 'n')"

// raw is a connection on which a test sees every line.
type raw struct {
	t *testing.T
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return &raw{t, c, bufio.NewReader(c)}
}

// send writes requests, each a list of words, in one piece.
func (r *raw) send(requests ...[]string) {
	r.t.Helper()
	var b strings.Builder
	for _, words := range requests {
		fmt.Fprintf(&b, "*%d\r\n", len(words))
		for _, w := range words {
			fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
		}
	}
	_, err := r.Write([]byte(b.String()))
	require.NoError(r.t, err)
}

func words(w ...string) []string { return w }

func evalIncr() []string { return words("EVAL", incr, "0") }

// lines requires that exactly these lines come next.
func (r *raw) lines(want ...string) {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(redistest.Patience)))
	for _, w := range want {
		line, err := r.r.ReadString('\n')
		require.NoError(r.t, err, "waiting for %q", w)
		require.Equal(r.t, w, strings.TrimSuffix(line, "\r\n"))
	}
}

// skip reads n lines, whatever they are.
func (r *raw) skip(n int) {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(redistest.Patience)))
	for range n {
		_, err := r.r.ReadString('\n')
		require.NoError(r.t, err)
	}
}

// closed requires that nothing more comes and the connection is closed.
func (r *raw) closed() {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(redistest.Patience)))
	rest, err := io.ReadAll(r.r)
	require.NoError(r.t, err)
	require.Empty(r.t, rest)
}

// silent requires that nothing comes and the connection is open.
func (r *raw) silent() {
	r.t.Helper()
	require.NoError(r.t, r.SetReadDeadline(time.Now().Add(quiet)))
	b, err := r.r.ReadByte()
	require.ErrorIs(r.t, err, os.ErrDeadlineExceeded, "read %q", b)
}
