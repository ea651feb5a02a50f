// SPDX-License-Identifier: Apache-2.0

package suite_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// calm is how long no server may be seen before the others take it for dead: longer than a busy machine keeps it from replying.
const calm = 5 * time.Minute

// routers are the worlds with one endpoint in front of several servers.
var routers = map[string]redistest.Routing{
	"router":          redistest.FirstKey,
	"refusing-router": redistest.Refusing,
}

// routed is a router and the servers behind it.
type routed struct {
	*redistest.Router

	shards []*redistest.Server
}

func (routed) Name() string                   { return "router" }
func (r routed) Servers() []*redistest.Server { return r.shards }

// Close implements redistest.Topology.
func (r routed) Close() {
	if r.Router != nil {
		r.Router.Close()
	}
	for _, s := range r.shards {
		s.Close()
	}
}

// startRouter runs a router and its servers.
func startRouter(routing redistest.Routing) (redistest.Topology, error) {
	var r routed
	for range 3 {
		s, err := redistest.StartServer()
		if err != nil {
			r.Close()
			return nil, err
		}
		r.shards = append(r.shards, s)
	}
	var err error
	r.Router, err = redistest.StartRouter(routing, r.shards...)
	return r, err
}

// servers are the topologies that cells of real worlds share, by name.
var servers struct {
	sync.Mutex
	started map[string]redistest.Topology
}

// newReal returns a world on the real servers of a topology.
func newReal(t *testing.T, name string) *World {
	t.Helper()
	top, err := startServers(name)
	require.NoError(t, err)
	return newRealOn(t, top)
}

// newRealOn returns a world whose servers are these.
func newRealOn(t *testing.T, tops ...redistest.Topology) *World {
	t.Helper()
	w := &World{T: t, Life: redistest.Patience, Grace: redistest.Patience, patience: redistest.Patience}
	w.prefix = fmt.Sprint("cell ", clients.Add(1), " ")
	// A busy machine can keep a process from renewing for seconds.
	w.defaults = append(w.defaults, signalbox.WithDefaults(signalbox.WithFirstLease(time.Hour)))
	opened := 0
	w.client = func(server int, mod func(*rueidis.ClientOption)) rueidis.Client {
		speak := redistest.Protocols()[opened%2] // of two processes one speaks RESP2
		opened++
		return tops[server].Client(t, func(o *rueidis.ClientOption) {
			speak.Set(o)
			mod(o)
		})
	}
	for i := range tops {
		w.open(i)
	}
	return w
}

func startServers(name string) (redistest.Topology, error) {
	servers.Lock()
	defer servers.Unlock()
	if top := servers.started[name]; top != nil {
		return top, nil
	}
	top, err := startTopology(name)
	if err != nil {
		return nil, err
	}
	if servers.started == nil {
		servers.started = make(map[string]redistest.Topology)
	}
	servers.started[name] = top
	return top, nil
}

func startTopology(name string) (redistest.Topology, error) {
	if routing, isRouter := routers[name]; isRouter {
		return startRouter(routing)
	}
	for _, s := range redistest.Topologies() {
		if s.Name == name {
			return s.Start(redistest.WithFailoverAfter(calm))
		}
	}
	return nil, errors.New("SIGNALBOX_WORLDS: there is no world " + name)
}

func closeServers() {
	servers.Lock()
	defer servers.Unlock()
	for _, top := range servers.started {
		top.Close()
	}
}
