// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
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

func TestHookSeesEachStepBeforeItHappens(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	var seen []string
	p.OnRequest(func(k int, req []string) {
		n, err := s.Do("GET", "n")
		seen = append(seen, fmt.Sprint(k, " ", req[0], " ", n, " ", err))
		if k == 2 {
			p.CutAll()
		}
	})
	r := dial(t, p.Addr())
	r.send(evalIncr())
	r.lines(":1")
	r.send(evalIncr())
	_, err := r.r.ReadByte()
	require.Error(t, err)
	p.Close()
	require.Equal(t, []string{"1 EVAL <nil> <nil>", "2 EVAL 1 <nil>"}, seen)
	require.Equal(t, "1", s.MustDo(t, "GET", "n"))
}

func TestRefusedConnectionsLeaveExistingOnesAlone(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(words("PING"))
	r.lines("+PONG")
	for range 2 {
		p.Refuse()
		_, err := net.Dial("tcp", p.Addr())
		require.ErrorContains(t, err, "connection refused")
		r.send(words("PING"))
		r.lines("+PONG")

		p.Accept()
		p.Accept() // twice is fine
		again := dial(t, p.Addr())
		again.send(words("PING"))
		again.lines("+PONG")
	}
	require.Equal(t, 3, p.Connections())
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

func TestCutAllCutsEveryConnectionAndAcceptsNewOnes(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	conns := []*raw{dial(t, p.Addr()), dial(t, p.Addr())}
	for _, r := range conns {
		r.send(words("PING"))
		r.lines("+PONG")
	}
	p.CutAll()
	for _, r := range conns {
		r.closed()
	}
	eventually(t, func() bool { return p.Connections() == 0 }, "connections left")
	r := dial(t, p.Addr())
	r.send(words("PING"))
	r.lines("+PONG")
}

func TestHalfOpenAllSilencesBothDirections(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(words("SUBSCRIBE", "c"))
	r.skip(6)
	p.HalfOpenAll()
	require.Equal(t, int64(1), s.MustDo(t, "PUBLISH", "c", "x"))
	r.send(words("PING"))
	r.silent()
	r.Close()
	require.Equal(t, []any{"c", int64(1)}, s.MustDo(t, "PUBSUB", "NUMSUB", "c"))
	p.CutAll()
	eventually(t, func() bool {
		n, err := s.Do("PUBSUB", "NUMSUB", "c")
		return err == nil && fmt.Sprint(n) == "[c 0]"
	}, "the server must see the cut")
}

func TestHalfOpenAllDropsWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	p.OnRequest(func(int, []string) { p.HalfOpenAll() })
	r := dial(t, p.Addr())
	r.send(evalIncr())
	r.silent()
	require.Empty(t, s.Keys("n"))
}

func TestEndOfTheServerReachesTheClient(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(words("PING"))
	r.lines("+PONG")
	s.Kill()
	r.closed()
	dial(t, p.Addr()).closed()
	s.Restart()
	r = dial(t, p.Addr())
	r.send(words("PING"))
	r.lines("+PONG")
}

func TestRequestsAfterTheEndOfTheServerDoNotCount(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(evalIncr())
	r.lines(":1")
	s.Kill()
	r.closed()
	r.send(evalIncr())
	r.Close()
	require.Never(t, func() bool { return p.Requests() > 1 }, quiet, quiet/10)
}

func TestEndOfTheClientReachesTheServer(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	r.send(words("SUBSCRIBE", "c"))
	r.skip(6)
	r.Close()
	eventually(t, func() bool {
		n, err := s.Do("PUBSUB", "NUMSUB", "c")
		return err == nil && fmt.Sprint(n) == "[c 0]"
	}, "the server must see the end")
	eventually(t, func() bool { return p.Connections() == 0 }, "connections left")
}

func TestRequestsSentBeforeTheClientClosedAreExecuted(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	s.Freeze()
	r := dial(t, p.Addr())
	r.send(evalIncr(), evalIncr())
	r.Close()
	s.Thaw()
	eventually(t, func() bool { return p.Replies() == 2 }, "requests lost")
	require.Equal(t, "2", s.MustDo(t, "GET", "n"))
}

func TestDroppedMessagesVanishAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			t.Parallel()
			s, p := proxied(t)
			push := map[string]string{"2": "*3", "3": ">3"}[proto]
			r := dial(t, p.Addr())
			hello(t, r, proto)
			p.DropPushes(true)
			r.send(words("SUBSCRIBE", "c"))
			r.lines(push, "$9", "subscribe", "$1", "c", ":1")
			s.MustDo(t, "PUBLISH", "c", "lost")
			eventually(t, func() bool { return p.DroppedPushes() == 1 }, "message not seen")
			p.DropPushes(false)
			s.MustDo(t, "PUBLISH", "c", "found")
			r.lines(push, "$7", "message", "$1", "c", "$5", "found")
			r.send(words("UNSUBSCRIBE", "c"))
			r.lines(push, "$11", "unsubscribe", "$1", "c", ":0")
			require.Equal(t, 1, p.DroppedPushes())
		})
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

func TestWhatIsNotRESPEndsTheConnectionAndIsLogged(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	r := dial(t, p.Addr())
	_, err := r.Write([]byte("*1\r\nx\r\n"))
	require.NoError(t, err)
	r.closed()
	require.Contains(t, strings.Join(p.Log(), "\n"), "not RESP")
}

func TestManyClientsGoThroughOneProxy(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	const clients, calls = 8, 50
	var wg sync.WaitGroup
	for range clients {
		c := p.Client(t, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 })
		for range 4 {
			wg.Go(func() {
				for range calls / 4 {
					if err := c.Do(t.Context(), c.B().Eval().Script(incr).Numkeys(0).Build()).Error(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	wg.Wait()
	want := clients * (calls / 4) * 4
	require.Equal(t, want, p.Requests())
	require.Equal(t, want, p.Replies())
	require.Equal(t, strconv.Itoa(want), s.MustDo(t, "GET", "n"))
}
