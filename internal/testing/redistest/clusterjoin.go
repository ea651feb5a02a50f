// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// form joins the nodes and returns when the cluster is healthy. Meanwhile their time-out is short, whatever
// it will be later: a node that has seen too few others waits for that long before it says that the cluster
// is healthy.
func (c *Cluster) form() error {
	if err := c.configure("cluster-node-timeout", milliseconds(clusterFailover)); err != nil {
		return err
	}
	if err := c.join(); err != nil {
		return err
	}
	if !PollUntil(startLimit, c.ready) {
		return fmt.Errorf("redistest: the cluster was not ready within %v:\n%s", startLimit, c.describe())
	}
	return c.configure("cluster-node-timeout", milliseconds(c.timeout))
}

func (c *Cluster) configure(name, to string) error {
	for _, n := range c.nodes {
		if _, err := n.Do("CONFIG", "SET", name, to); err != nil {
			return fmt.Errorf("redistest: %s: %w", name, err)
		}
	}
	return nil
}

// join makes six nodes that know nothing a cluster.
func (c *Cluster) join() error {
	if err := c.share(); err != nil {
		return err
	}
	if err := c.meet(); err != nil {
		return err
	}
	return c.replicate()
}

// share gives each primary its third of the slots. Each has an epoch of its own from the start: a node that
// finds a slot claimed twice decides by the epochs, and nodes with equal epochs would have to agree first.
func (c *Cluster) share() error {
	for i, n := range c.nodes {
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return fmt.Errorf("redistest: epoch: %w", err)
		}
		if i >= primaries {
			continue
		}
		first, end := i*Slots/primaries, (i+1)*Slots/primaries
		if err := n.addSlots(first, end); err != nil {
			return fmt.Errorf("redistest: slots: %w", err)
		}
	}
	return nil
}

// meetRetry is when CLUSTER MEET is sent again. Nodes meet within milliseconds, and give up after their
// time-out, as on a machine that is suspended.
const meetRetry = 3 * clusterFailover

// meet sends CLUSTER MEET for the first node to the others, until each node knows all others.
func (c *Cluster) meet() error {
	host := c.nodes[0]
	port := host.bus
	if b := c.buses[host]; b != nil {
		port = b.reserved.port
	}
	for ends := time.Now().Add(startLimit); ; {
		for _, n := range c.nodes[1:] {
			if _, err := n.Do("CLUSTER", "MEET", "127.0.0.1", host.port, port); err != nil {
				return fmt.Errorf("redistest: meet: %w", err)
			}
		}
		if PollUntil(meetRetry, c.met) {
			return nil
		}
		if time.Now().After(ends) {
			return fmt.Errorf("redistest: the nodes did not meet within %v:\n%s", startLimit, c.describe())
		}
	}
}

// met reports whether each node knows all others.
func (c *Cluster) met() bool {
	return all(c.nodes, func(n *Server) bool {
		v, err := n.view()
		if err != nil || len(v) != len(c.nodes) {
			return false
		}
		return !slices.ContainsFunc(v, func(node nodeInfo) bool { return node.flagged("handshake") })
	})
}

// replicate makes the second half of the nodes the replicas of the first.
func (c *Cluster) replicate() error {
	var selves map[*Server]nodeInfo
	if !PollUntil(startLimit, func() bool {
		selves = c.selfViews()
		return len(selves) == len(c.nodes)
	}) {
		return fmt.Errorf("redistest: not all nodes replied within %v:\n%s", startLimit, c.describe())
	}
	for i, n := range c.nodes[primaries:] {
		if _, err := n.Do("CLUSTER", "REPLICATE", selves[c.nodes[i]].id); err != nil {
			return fmt.Errorf("redistest: replicate: %w", err)
		}
	}
	return nil
}

// AddAllSlots makes the server, which has --cluster-enabled, the only node of a cluster.
func (s *Server) AddAllSlots(tb testing.TB) {
	tb.Helper()
	if err := s.addSlots(0, Slots); err != nil {
		tb.Fatal(err)
	}
}

// addSlots gives a node the slots from first to the one before end.
func (s *Server) addSlots(first, end int) error {
	words := []any{"CLUSTER", "ADDSLOTSRANGE", first, end - 1}
	if isOld(s.binary) {
		words = []any{"CLUSTER", "ADDSLOTS"}
		for slot := first; slot < end; slot++ {
			words = append(words, slot)
		}
	}
	_, err := s.Do(words...)
	return err
}
