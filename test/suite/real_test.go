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

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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
	w := &World{T: t, Life: 3 * time.Second, Grace: 1500 * time.Millisecond, prefix: fmt.Sprint("cell ", clients.Add(1), " ")}
	if name == "cluster" {
		w.Life = 10 * time.Second // its waiters may be delayed by 4 s
	}
	w.client = func(mod func(*rueidis.ClientOption)) rueidis.Client { return top.Client(t, mod) }
	w.open()
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
	for _, s := range redistest.Topologies() {
		if s.Name == name {
			return s.Start()
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
