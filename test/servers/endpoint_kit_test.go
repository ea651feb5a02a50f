// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// shardedEndpoint is one address with shards behind it.
type shardedEndpoint struct {
	testing.TB

	to     redistest.Dialer
	shards []*redistest.Server
}

// everywhere runs a test at every kind of endpoint.
func everywhere(t *testing.T, test func(e *shardedEndpoint)) {
	t.Helper()
	run := func(name string, make func(t *testing.T) *shardedEndpoint) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(make(t))
		})
	}
	run("OneNode", oneNode)
	run("Refusing", routed(redistest.Refusing, 2))
	run("OwnWords", routed(redistest.OwnWords, 3))
	run("FirstKey", routed(redistest.FirstKey, 2))
	run("FirstKeyOfThree", routed(redistest.FirstKey, 3))
	run("Hangup", routed(redistest.Hangup, 2))
}

// oneNode is a node with all slots of a cluster, for clients that take it for a single server.
func oneNode(t *testing.T) *shardedEndpoint {
	t.Helper()
	redistest.Slow(t, "the nodes of a cluster serve two seconds after their start")
	s := nodeWithAllSlots(t)
	return &shardedEndpoint{t, plainServer{s}, []*redistest.Server{s}}
}

// nodeWithAllSlots starts a node of a cluster that has no other.
func nodeWithAllSlots(t *testing.T) *redistest.Server {
	t.Helper()
	s := redistest.Start(t, redistest.WithArgs("--cluster-enabled", "yes"))
	s.AddAllSlots(t)
	redistest.Await(t, "a cluster", func() bool {
		info, _ := s.MustDo(t, "CLUSTER", "INFO").(string)
		return strings.Contains(info, "cluster_state:ok")
	})
	return s
}

// plainServer makes clients that do not ask whether there is a cluster.
type plainServer struct{ *redistest.Server }

// Client implements redistest.Dialer.
func (s plainServer) Client(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return s.Server.Client(tb, func(o *rueidis.ClientOption) {
		o.ForceSingleClient = true
		mod(o)
	})
}

// routed is a router in front of so many servers.
func routed(routing redistest.Routing, n int) func(t *testing.T) *shardedEndpoint {
	return func(t *testing.T) *shardedEndpoint {
		t.Helper()
		e := &shardedEndpoint{TB: t}
		for range n {
			e.shards = append(e.shards, redistest.Start(t))
		}
		e.to = redistest.NewRouter(t, routing, e.shards...)
		return e
	}
}

func (e *shardedEndpoint) session(options ...signalbox.SessionOption) *signalbox.Session {
	e.Helper()
	return locktest.SteadySession(e, e.to, options...)
}

// learnSlots lets the probes of sessions end. A probe that the endpoint hangs up on breaks the session's connection, and fails
// a TryLock that shares it. The next probe is a second away at least.
func learnSlots(sessions ...*signalbox.Session) {
	for _, s := range sessions {
		locktest.LearnSlots(s)
	}
}

// released releases a lease. A probe may break the connection of the release, which is then unconfirmed and repeated in the
// background: nothingLeft waits for it.
func released(lease signalbox.Lease) error { return locktest.IgnoreUnconfirmed(lease.Unlock()) }

func (e *shardedEndpoint) release(lease signalbox.Lease) {
	e.Helper()
	require.NoError(e, released(lease))
}

// tickets returns how many tickets there are for the first n locks.
func (e *shardedEndpoint) tickets(n int) (tickets int) {
	e.Helper()
	for i := range n {
		for _, shard := range e.shards {
			tickets += locktest.Tickets(e, shard, fmt.Sprint("lock-", i))
		}
	}
	return tickets
}

// nothingLeft waits until no shard has a hold or a ticket.
func (e *shardedEndpoint) nothingLeft() {
	e.Helper()
	for _, shard := range e.shards {
		view := locktest.NewView(e, plainServer{shard})
		redistest.Await(e, "the end of every hold and ticket", func() bool {
			immortal, held, err := view.Leaks()
			require.NoError(e, err)
			require.Empty(e, immortal)
			return len(held) == 0
		})
	}
}
