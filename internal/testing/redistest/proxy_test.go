// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, redistest.NewProxy(t, s.Addr())
}

func TestProxyForwardsBytesUnchanged(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	big := strings.Repeat("a\r\n*3\r\n\x00", 100_000)
	r := dial(t, p.Addr())
	r.send(words("SET", "k", big), words("GET", "k"))
	r.lines("+OK", "$"+strconv.Itoa(len(big)))
	got := make([]byte, len(big))
	_, err := io.ReadFull(r.r, got)
	require.NoError(t, err)
	require.Equal(t, big, string(got))
	require.Equal(t, big, s.MustDo(t, "GET", "k"))
	require.Equal(t, "redis://"+p.Addr(), p.URL())
}

func TestOnlyMatchingRequestsCount(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(words("PING"), evalIncr(), words("get", "n"), words("evalsha", "0", "0"))
	r.lines("+PONG", ":1", "$1", "1")
	r.skip(1) // NOSCRIPT
	require.Equal(t, 2, p.Requests())
	require.Equal(t, 2, p.Replies())
	require.Equal(t, []string{"PING", "EVAL", "GET", "EVALSHA"}, p.Log())

	p.ResetCount()
	p.SetMatch(redistest.Commands("ping"))
	r.send(words("PING"), evalIncr())
	r.lines("+PONG", ":2")
	require.Equal(t, 1, p.Requests())
	require.Equal(t, []string{"PING", "EVAL"}, p.Log())
}

// Refuse and CutAll leave no connection, also of a client whose connection was accepted just before.
func TestRefusedAndCutClientsAreGone(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	for range 100 {
		c, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		p.Refuse()
		p.CutAll()
		require.NoError(t, c.SetReadDeadline(time.Now().Add(redistest.Patience)))
		_, err = c.Read(make([]byte, 1))
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "it is connected still")
		require.NoError(t, c.Close())
		p.Accept()
	}
}

func TestLatencyDelaysButDoesNotAddUp(t *testing.T) {
	t.Parallel()
	const oneWay, requests = 80 * time.Millisecond, 1000 // if they added up it would take far longer than patience
	_, p := proxied(t)
	p.SetLatency(oneWay)
	r := dial(t, p.Addr())
	from := time.Now()
	for i := range requests {
		r.send(evalIncr())
		if i == 0 {
			r.send(words("PING"))
		}
	}
	r.lines(":1", "+PONG")
	for i := 1; i < requests; i++ {
		r.lines(":" + strconv.Itoa(i+1))
	}
	took := time.Since(from)
	require.GreaterOrEqual(t, took, 2*oneWay)
	require.Less(t, took, requests*oneWay)
}

func TestCloseAbortsDelays(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.DelayRequest, redistest.DelayReply} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			_, p := proxied(t)
			f := p.Arm(redistest.Fault{Kind: kind, Delay: time.Hour})
			r := dial(t, p.Addr())
			r.send(evalIncr(), evalIncr())
			receive(t, f.Fired())
			p.Close()
			p.Close() // twice is fine
			r.closed()
			_, err := net.Dial("tcp", p.Addr())
			require.Error(t, err)
			p.Accept() // has no effect after Close
			_, err = net.Dial("tcp", p.Addr())
			require.Error(t, err)
		})
	}
}
