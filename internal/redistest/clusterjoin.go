// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"time"
)

// form joins the nodes and returns when all is well. Meanwhile their time-out is short, also if it is to be
// a long one: a node that has seen too few others waits for that long before it says that all is
// well.
func (c *Cluster) form(timeout time.Duration) error {
	if err := c.configure("cluster-node-timeout", milliseconds(clusterFailover)); err != nil {
		return err
	}
	if err := c.join(); err != nil {
		return err
	}
	if !poll(startLimit, c.ready) {
		return fmt.Errorf("redistest: the cluster was not ready within %v:\n%s", startLimit, c.describe())
	}
	if timeout == 0 {
		return nil
	}
	return c.configure("cluster-node-timeout", milliseconds(timeout))
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

// share gives each primary its part of the slots. Each has an epoch of its own from the start: who
// finds a slot claimed twice goes by that, and nodes that had the same would have to agree first.
func (c *Cluster) share() error {
	for i, n := range c.nodes {
		if _, err := n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1); err != nil {
			return fmt.Errorf("redistest: epoch: %w", err)
		}
		if i >= primaries {
			continue
		}
		first, end := i*Slots/primaries, (i+1)*Slots/primaries
		if _, err := n.Do("CLUSTER", "ADDSLOTSRANGE", first, end-1); err != nil {
			return fmt.Errorf("redistest: slots: %w", err)
		}
	}
	return nil
}

// meet introduces the nodes to the first one, and waits until each has heard of all others.
func (c *Cluster) meet() error {
	host := c.nodes[0]
	for _, n := range c.nodes[1:] {
		if _, err := n.Do("CLUSTER", "MEET", "127.0.0.1", host.port, host.bus); err != nil {
			return fmt.Errorf("redistest: meet: %w", err)
		}
	}
	met := func(n *Server) bool {
		v, err := n.view()
		if err != nil || len(v) != len(c.nodes) {
			return false
		}
		for _, m := range v {
			if m.flagged("handshake") {
				return false
			}
		}
		return true
	}
	if !poll(startLimit, func() bool { return all(c.nodes, met) }) {
		return fmt.Errorf("redistest: the nodes did not meet within %v:\n%s", startLimit, c.describe())
	}
	return nil
}

// replicate makes the second half of the nodes the replicas of the first.
func (c *Cluster) replicate() error {
	selves := c.selves()
	for i, n := range c.nodes[primaries:] {
		if _, err := n.Do("CLUSTER", "REPLICATE", selves[c.nodes[i]].id); err != nil {
			return fmt.Errorf("redistest: replicate: %w", err)
		}
	}
	return nil
}
