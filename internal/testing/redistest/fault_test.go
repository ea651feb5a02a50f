// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// outcome is the result of five pipelined requests of which the third has a fault.
type outcome struct {
	replies  int  // delivered, in order
	closed   bool // the connection is closed afterwards; otherwise it is silent
	executed int
}

func outcomes() map[redistest.FaultKind]outcome {
	return map[redistest.FaultKind]outcome{
		redistest.CutAfterRequest: {replies: 2, closed: true, executed: 3},
		redistest.CutAfterReply:   {replies: 3, closed: true, executed: 3},
		redistest.DelayRequest:    {replies: 5, executed: 5},
		redistest.DelayReply:      {replies: 5, executed: 5},
		redistest.SwallowRequest:  {replies: 2, executed: 2},
		redistest.SwallowReply:    {replies: 2, executed: 5},
	}
}

func TestFaultStrikesExactlyItsRequest(t *testing.T) {
	t.Parallel()
	for kind, want := range outcomes() {
		for _, proto := range []string{"2", "3"} {
			t.Run(kind.String()+"/RESP"+proto, func(t *testing.T) {
				t.Parallel()
				s, p := proxied(t)
				r := dial(t, p.Addr())
				hello(t, r, proto)
				f := p.Arm(redistest.Fault{Kind: kind, At: 3, Delay: time.Millisecond})
				r.send(evalIncr(), evalIncr(), words("PING"), evalIncr(), words("PING"), evalIncr(), evalIncr())
				r.requireOutcome(want)
				if want.closed {
					require.True(t, f.HasFired(), "the client has seen the cut")
				}
				receive(t, f.Fired())
				eventually(t, func() bool {
					n, err := s.Do("GET", "n")
					return err == nil && n == strconv.Itoa(want.executed)
				}, "executed")
			})
		}
	}
}

// requireOutcome reads the replies to five requests with a PING before the third and one
// before the fourth.
func (r *raw) requireOutcome(want outcome) {
	r.t.Helper()
	for i := 1; i <= want.replies; i++ {
		if i == 3 || i == 4 {
			r.lines("+PONG")
		}
		r.lines(fmt.Sprintf(":%d", i))
	}
	if want.replies == 2 {
		r.lines("+PONG") // before the request that has the fault
	}
	switch {
	case want.closed:
		r.closed()
	default:
		r.silent()
	}
}

// hello switches to a protocol version.
func hello(t *testing.T, r *raw, proto string) {
	t.Helper()
	r.send(words("HELLO", proto), words("ECHO", "hello-done"))
	require.NoError(t, r.SetReadDeadline(time.Now().Add(patience)))
	for line := ""; line != "hello-done\r\n"; {
		var err error
		line, err = r.r.ReadString('\n')
		require.NoError(t, err)
	}
}

// The two faults that lose earlier replies are tried one request after the other.

func TestCutBeforeRequestIsNeverForwarded(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	f := p.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest, At: 2})
	r.send(evalIncr())
	r.lines(":1")
	require.False(t, f.HasFired())
	r.send(evalIncr(), evalIncr())
	r.closed()
	require.True(t, f.HasFired())
	receive(t, f.Fired())
	require.Equal(t, 2, p.Requests(), "what was pipelined behind it does not count")
	require.Equal(t, 1, p.Replies())
	require.Equal(t, "1", s.MustDo(t, "GET", "n"))
}

func TestHalfOpenConnectionIsSilentAndStaysOpenAtBothEnds(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	hello(t, r, "3")
	r.send(words("SUBSCRIBE", "c"), evalIncr())
	r.skip(7)
	f := p.Arm(redistest.Fault{Kind: redistest.HalfOpen})
	r.send(evalIncr(), evalIncr())
	receive(t, f.Fired())
	s.MustDo(t, "PUBLISH", "c", "x")
	r.silent()
	r.Close()
	require.Equal(t, []any{"c", int64(1)}, s.MustDo(t, "PUBSUB", "NUMSUB", "c"))
	require.Equal(t, "1", s.MustDo(t, "GET", "n"))
	s.Kill()
	require.Equal(t, 1, p.Connections())
}

func TestHalfOpenConnectionHidesTheServersEnd(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	f := p.Arm(redistest.Fault{Kind: redistest.HalfOpen})
	r.send(evalIncr())
	receive(t, f.Fired())
	s.Kill()
	r.silent()
}

func TestStepsAreCountedOverAllConnections(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	a, b := dial(t, p.Addr()), dial(t, p.Addr())
	p.Arm(redistest.Fault{Kind: redistest.CutAfterReply, At: 3})
	p.Arm(redistest.Fault{Kind: redistest.CutAfterRequest, At: 2})
	a.send(evalIncr())
	a.lines(":1")
	b.send(evalIncr())
	b.closed()
	a.send(evalIncr())
	a.lines(":3")
	a.closed()
}

func TestDelayOfOneConnectionDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.DelayRequest, redistest.DelayReply} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			_, p := proxied(t)
			f := p.Arm(redistest.Fault{Kind: kind, Delay: time.Hour})
			slow, fast := dial(t, p.Addr()), dial(t, p.Addr())
			slow.send(evalIncr())
			receive(t, f.Fired())
			fast.send(words("PING"))
			fast.lines("+PONG")
			slow.silent()
		})
	}
}

func TestDelayLastsAsLongAsConfigured(t *testing.T) {
	t.Parallel()
	for _, kind := range []redistest.FaultKind{redistest.DelayRequest, redistest.DelayReply} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			_, p := proxied(t)
			p.Arm(redistest.Fault{Kind: kind, Delay: quiet})
			r := dial(t, p.Addr())
			from := time.Now()
			r.send(evalIncr())
			r.lines(":1")
			require.GreaterOrEqual(t, time.Since(from), quiet)
		})
	}
}

func TestDelayedRequestIsExecutedAlthoughTheClientHasGone(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	f := p.Arm(redistest.Fault{Kind: redistest.DelayRequest, Delay: quiet}) // at least: see TestDelayLastsAsLongAsConfigured
	r := dial(t, p.Addr())
	r.send(evalIncr())
	receive(t, f.Fired())
	r.Close()
	eventually(t, func() bool { return len(s.Keys("n")) == 1 }, "never executed")
}

func TestDisarmedFaultDoesNotStrike(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	f := p.Arm(redistest.Fault{Kind: redistest.CutBeforeRequest})
	p.Disarm()
	r := dial(t, p.Addr())
	r.send(evalIncr())
	r.lines(":1")
	require.False(t, f.HasFired())
}

func TestCutAfterRequestHitsTheReplyAndNotThePushBeforeIt(t *testing.T) {
	t.Parallel()
	s, p := proxied(t)
	r := dial(t, p.Addr())
	hello(t, r, "3")
	f := p.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	// The server sends the message to its own connection before it replies to the script.
	r.send(words("SUBSCRIBE", "c"), words("EVAL", "return redis.call('PUBLISH', 'c', 'x')", "0"))
	r.lines(">3", "$9", "subscribe", "$1", "c", ":1")
	rest := readAll(r)
	if rest != "" { // Redis decides whether the message or the reply comes first
		require.Equal(t, ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n", rest)
	}
	receive(t, f.Fired())
	require.Equal(t, 1, p.Replies())
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
}

func TestSubscriptionCanBeStruck(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	p.SetMatch(redistest.Commands("SUBSCRIBE"))
	f := p.Arm(redistest.Fault{Kind: redistest.CutAfterRequest})
	r := dial(t, p.Addr())
	r.send(words("SUBSCRIBE", "a", "b"))
	r.closed()
	receive(t, f.Fired())
}

// TestClientSeesEveryKind goes through a real client, whose call must end with an error
// exactly if the reply does not arrive, and which must work again afterwards.
func TestClientSeesEveryKind(t *testing.T) {
	t.Parallel()
	executed := map[redistest.FaultKind]int{
		redistest.CutBeforeRequest: 0, redistest.SwallowRequest: 0, redistest.HalfOpen: 0,
	}
	for _, kind := range redistest.FaultKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			silent := kind == redistest.SwallowRequest || kind == redistest.SwallowReply || kind == redistest.HalfOpen
			if silent {
				redistest.Slow(t, "the client finds a silent connection by a timer of its own")
			}
			s, p := proxied(t)
			c := p.Client(t, func(o *rueidis.ClientOption) {
				if silent {
					o.Dialer.KeepAlive = quiet // a silent connection is found by a ping
					o.ConnWriteTimeout = 2 * time.Second
				}
			})
			f := p.Arm(redistest.Fault{Kind: kind, Delay: quiet / 2})
			err := callIncr(t.Context(), c)
			receive(t, f.Fired())
			switch kind {
			case redistest.CutAfterReply, redistest.DelayReply, redistest.DelayRequest:
				require.NoError(t, err)
			default:
				require.Error(t, err)
			}
			want, ok := executed[kind]
			if !ok {
				want = 1
			}
			require.Len(t, s.Keys("n"), want)
			eventually(t, func() bool { return callIncr(t.Context(), c) == nil }, "client did not recover")
		})
	}
}

func callIncr(ctx context.Context, c rueidis.Client) error {
	return c.Do(ctx, c.B().Eval().Script(incr).Numkeys(0).Build()).Error()
}

func TestCutIsAnEndAndNotAResetWhileTheClientSends(t *testing.T) {
	t.Parallel()
	_, p := proxied(t)
	f := p.Arm(redistest.Fault{Kind: redistest.CutAfterReply})
	r := dial(t, p.Addr())
	r.send(evalIncr())
	receive(t, f.Fired())
	for range 3 {
		r.send(words("PING"))
	}
	r.lines(":1")
	r.closed()
	require.Equal(t, 1, p.Requests())
	require.Zero(t, p.Connections())
}

func TestKindsHaveNames(t *testing.T) {
	t.Parallel()
	for _, k := range redistest.FaultKinds() {
		require.NotContains(t, k.String(), "(")
	}
	require.Equal(t, "Kind(99)", redistest.FaultKind(99).String())
}
