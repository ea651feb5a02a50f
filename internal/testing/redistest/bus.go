// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// bus is a proxy before the port of a node for the other nodes of its cluster: they know its port alone. It forwards what they
// send, by node: each node has a connection of its own to each other one, and answers there. So the link of two nodes is two
// connections, one at the bus of each.
type bus struct {
	listener *net.TCPListener
	reserved *reservation
	running  sync.WaitGroup // the acceptor, and two goroutines a connection

	mu       sync.Mutex
	upstream string                // of the node; guarded by mu
	lost     map[string]bool       // the ids of the nodes from which nothing arrives; guarded by mu
	open     map[*busLink]struct{} // guarded by mu
	closed   bool                  // guarded by mu
}

// busLink is a connection of another node.
type busLink struct {
	bus            *bus
	client, server *net.TCPConn
	sender         string // the id of that node
	torn           bool   // something of it was lost: nothing arrives any more; guarded by mu of the bus
}

// senderAt and headerSize are where a node's id begins and ends in a message, and each connection begins with a message.
const senderAt, headerSize = 40, 80

func startBus() (*bus, error) {
	var last error
	for range startTries {
		r, err := reserve()
		if err != nil {
			return nil, err
		}
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: r.port})
		if err != nil {
			r.free()
			last = err
			continue
		}
		b := &bus{listener: l, reserved: r, lost: make(map[string]bool), open: make(map[*busLink]struct{})}
		b.running.Go(b.accept) // ends with the listener
		return b, nil
	}
	return nil, fmt.Errorf("redistest: bus: %w", last)
}

// args are what the node announces.
func (b *bus) args() []string {
	return []string{"--cluster-announce-bus-port", strconv.Itoa(b.reserved.port)}
}

func closeBuses(all []*bus) {
	for _, b := range all {
		b.close()
	}
}

func (b *bus) close() {
	b.mu.Lock()
	b.closed = true
	for l := range b.open {
		l.end()
	}
	b.mu.Unlock()
	_ = b.listener.Close() // nothing is written to it
	b.running.Wait()
	b.reserved.free()
}

// lead says where the node is. Before, each connection ends at once.
func (b *bus) lead(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.upstream = addr
}

func (b *bus) accept() {
	for {
		client, err := b.listener.AcceptTCP()
		if err != nil {
			return
		}
		b.running.Go(func() { b.serve(client) })
	}
}

// serve forwards a connection until it ends.
func (b *bus) serve(client *net.TCPConn) {
	l := &busLink{bus: b, client: client}
	header := make([]byte, headerSize)
	// The bound is for a node that is stopped, so that a closed bus does not wait for it.
	_ = client.SetReadDeadline(time.Now().Add(Patience))
	if _, err := io.ReadFull(client, header); err != nil {
		_ = client.Close()
		return
	}
	_ = client.SetReadDeadline(time.Time{})
	l.sender = string(header[senderAt:])
	if !l.join() {
		_ = client.Close()
		return
	}
	defer l.leave()
	if l.arrives() {
		if _, err := l.server.Write(header); err != nil {
			return
		}
	}
	b.running.Go(func() { l.forward(l.client, l.server) }) // ends with both
	l.forward(l.server, l.client)
}

// join connects to the node, unless the bus is closed.
func (l *busLink) join() bool {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	if l.bus.closed || l.bus.upstream == "" {
		return false
	}
	var err error
	if l.server, err = dialTCP(l.bus.upstream); err != nil {
		return false
	}
	l.bus.open[l] = struct{}{}
	return true
}

func (l *busLink) leave() {
	l.end()
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	delete(l.bus.open, l)
}

// end closes both connections; the goroutines follow.
func (l *busLink) end() {
	_ = l.client.Close() // what was under way may be lost
	_ = l.server.Close()
}

// arrives reports whether what was read now arrives. After something was lost nothing does: a stream has no holes.
func (l *busLink) arrives() bool {
	l.bus.mu.Lock()
	defer l.bus.mu.Unlock()
	l.torn = l.torn || l.bus.lost[l.sender]
	return !l.torn
}

func (l *busLink) forward(from, to *net.TCPConn) {
	defer l.end()
	part := make([]byte, 16<<10)
	for {
		n, err := from.Read(part)
		if n > 0 && l.arrives() {
			if _, err := to.Write(part[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// lose lets nothing arrive from a node any more, nor an answer to it.
func (b *bus) lose(sender string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lost[sender] = true
}

// find lets everything arrive from a node again, by new connections.
func (b *bus) find(sender string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.lost, sender)
	for l := range b.open {
		if l.sender == sender && l.torn {
			l.end()
		}
	}
}

// WithLinks has the nodes of a cluster speak to each other by a proxy of each, so that [Cluster.Part] can cut links of two.
func WithLinks() Option {
	return func(c *config) { c.links = true }
}

// Part lets nothing of the others arrive at a node, nor of the node at them, until [Cluster.Heal]. Clients reach all, and replicas
// their primaries. Meanwhile the node time-out is short. It is for clusters with [WithLinks].
func (c *Cluster) Part(tb testing.TB, node *Server, others ...*Server) {
	tb.Helper()
	tally.Fault("nodes of a cluster parted")
	ids := c.ids(tb)
	c.setTimeout(tb, clusterFailover)
	for _, other := range others {
		c.buses[node].lose(ids[other])
		c.buses[other].lose(ids[node])
	}
}

// AwaitParted waits until a node says of another one that it does not reply, which is a node time-out after Part.
func (c *Cluster) AwaitParted(tb testing.TB, node, other *Server) {
	tb.Helper()
	id := c.ids(tb)[other]
	mustPollUntil(tb, node.Addr()+" misses "+other.Addr(), func() bool {
		v, err := node.view()
		return err == nil && (v.known(id).flagged("fail?") || v.known(id).flagged("fail"))
	}, c.describe)
}

// Heal ends all partitions, and returns when the cluster is whole.
func (c *Cluster) Heal(tb testing.TB) {
	tb.Helper()
	for _, id := range c.ids(tb) {
		for _, b := range c.buses {
			b.find(id)
		}
	}
	c.AwaitReady(tb)
	c.setTimeout(tb, c.timeout)
}

// ids waits until all nodes reply, and returns the id of each.
func (c *Cluster) ids(tb testing.TB) map[*Server]string {
	tb.Helper()
	ids := make(map[*Server]string)
	mustPollUntil(tb, "six nodes", func() bool {
		for n, self := range c.selfViews() {
			ids[n] = self.id
		}
		return len(ids) == len(c.nodes)
	}, c.describe)
	return ids
}
