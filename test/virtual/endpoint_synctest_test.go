// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// endpoint is one address in front of servers in a bubble.
type endpoint struct {
	*redlockServers

	router *redistest.Router
}

// bubbleOfEndpoint runs a test in virtual time, with so many servers behind one endpoint. The clock of each is a minute
// ahead of that of the one before.
func bubbleOfEndpoint(t *testing.T, routing redistest.Routing, n int, test func(e *endpoint)) {
	t.Helper()
	bubbleOf(t, n, func(r *redlockServers) {
		var dials []func() (net.Conn, error)
		for i, f := range r.servers {
			r.setAhead(i, time.Duration(i)*time.Minute)
			dials = append(dials, func() (net.Conn, error) { return f.redis.Dial() })
		}
		e := &endpoint{r, redistest.NewPipeRouter(routing, dials...)}
		defer func() {
			for _, end := range r.ends {
				end()
			}
			r.ends = nil
			e.router.Close()
		}()
		test(e)
	})
}

// session returns a session whose client takes the endpoint for one server.
func (e *endpoint) session(options ...signalbox.SessionOption) *signalbox.Session {
	e.Helper()
	o := rueidis.ClientOption{
		InitAddress: []string{fmt.Sprint("endpoint/", clientCount.Add(1))}, ForceSingleClient: true,
		ReadBufferEachConn: 4 << 10, WriteBufferEachConn: 4 << 10, RingScaleEachConn: 7,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return e.router.Dial() },
	}
	o.Dialer.KeepAlive = 10 * time.Second
	signalbox.Tune(&o)
	c, err := rueidis.NewClient(o)
	require.NoError(e, err)
	s := signalbox.NewSession(c, options...)
	e.ends = append(e.ends, func() {
		_ = s.Close(locktest.Ended()) // says that leases were left, if the test has failed
		c.Close()
	})
	return s
}

// endpointKind is what an endpoint does with scripts over slots, and with others.
type endpointKind struct {
	routing redistest.Routing
	servers int
	faults  locktest.RouterFaults
}

// P1, P2, P6: 200 names of mixed kinds stay held behind one endpoint, in calls of one slot each, although each shard has a clock
// of its own, replies are lost, and slots redirect. Then their waiters get them. The log warns of nothing that is not so.
func TestMixedKindsStayHeldBehindOneEndpoint(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]endpointKind{
		"OneNode":   {redistest.Refusing, 1, locktest.NoFaults},
		"OwnWords":  {redistest.OwnWords, 2, locktest.NoFaults},
		"FirstKey":  {redistest.FirstKey, 2, locktest.NoFaults},
		"Invents":   {redistest.OwnWords, 2, locktest.InventsErrors},
		"Redirects": {redistest.Refusing, 2, locktest.Redirects},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfEndpoint(t, c.routing, c.servers, func(e *endpoint) {
				const life, renewals = 3 * time.Second, 20
				var log bytes.Buffer
				logger := signalbox.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})))
				m := locktest.HoldMany(e.Context(), e.T, e.router, c.faults, e.session(logger), e.session(logger), 200, life)
				for passed := time.Duration(0); m.LeastRenewals() < renewals; passed += life / 3 {
					require.Less(e, passed, 2*renewals*life/3)
					time.Sleep(life / 3)
					m.Check()
				}
				m.CheckCost()
				if c.faults == locktest.NoFaults {
					require.Empty(e, log.String())
				}
				m.Release()
			})
		})
	}
}
