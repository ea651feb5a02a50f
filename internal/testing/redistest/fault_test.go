// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

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

func proxied(t *testing.T) (*redistest.Server, *redistest.Proxy) {
	t.Helper()
	s := redistest.Start(t)
	return s, redistest.NewProxy(t, s.Addr())
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
				redistest.Receive(t, "a fault", f.Fired())
				redistest.Await(t, "executed", func() bool {
					n, err := s.Do("GET", "n")
					return err == nil && n == strconv.Itoa(want.executed)
				})
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
	require.NoError(t, r.SetReadDeadline(time.Now().Add(redistest.Patience)))
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
	redistest.Receive(t, "a fault", f.Fired())
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
	redistest.Receive(t, "a fault", f.Fired())
	s.MustDo(t, "PUBLISH", "c", "x")
	r.silent()
	r.Close()
	require.Equal(t, []any{"c", int64(1)}, s.MustDo(t, "PUBSUB", "NUMSUB", "c"))
	require.Equal(t, "1", s.MustDo(t, "GET", "n"))
	s.Kill()
	require.Equal(t, 1, p.Connections())
}
