// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"context"
	"net"
	"sync"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

const (
	// chunk is how much of a connection is read at once.
	chunk = 4 << 10
	// backlog is how many chunks the host of a paused process takes in.
	backlog = 1024
)

// network is the connections of one client.
type network struct {
	server *miniredis.Miniredis

	mu          sync.Mutex
	stopped     bool                    // connections are refused; guarded by mu
	partitioned bool                    // what is sent is swallowed, in both directions; guarded by mu
	paused      chan struct{}           // closed when the process runs again, nil while it runs; guarded by mu
	conns       map[*pipedConn]struct{} // the open connections; guarded by mu
}

// pipedConn is one connection. It is two pipes, so that a bubble can wait for it, and that the deadlines which a client sets
// work as ever. Three goroutines carry what passes; they end when either end is closed.
type pipedConn struct {
	network         *network
	client, process net.Conn // the two ends of the client's pipe
	host            net.Conn // the end of the server's pipe
}

// dial opens a connection. A process that is paused does so when it runs again.
func (n *network) dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-n.running():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stopped {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	host, err := n.server.Dial()
	if err != nil {
		return nil, err
	}
	c := &pipedConn{network: n, host: host}
	c.client, c.process = net.Pipe()
	if n.conns == nil {
		n.conns = make(map[*pipedConn]struct{})
	}
	n.conns[c] = struct{}{}
	arrived := make(chan []byte, backlog)
	go c.send()
	go c.receive(arrived)
	go c.deliver(arrived)
	return c.client, nil
}

// stop cuts the connections, and refuses new ones.
func (n *network) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = true
	n.cutLocked()
}

// partition swallows what the connections carry, and new ones too.
func (n *network) partition() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.partitioned = true
}

// start ends stop.
func (n *network) start() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stopped = false
}

// heal ends partition. Connections that may have swallowed something are cut: they are of no use. A new one is made
// under mu, so it is either cut here or not partitioned.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.partitioned {
		n.partitioned = false
		n.cutLocked()
	}
}

// pause holds up the process: it sends nothing, and what it is sent waits for it.
func (n *network) pause() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused == nil {
		n.paused = make(chan struct{})
	}
}

// resume ends pause.
func (n *network) resume() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused != nil {
		close(n.paused)
		n.paused = nil
	}
}

// restore ends stop, partition and pause.
func (n *network) restore() {
	n.start()
	n.heal()
	n.resume()
}

// running returns a channel that is closed as soon as the process runs.
func (n *network) running() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.paused != nil {
		return n.paused
	}
	runs := make(chan struct{})
	close(runs)
	return runs
}

func (n *network) isPartitioned() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.partitioned
}

func (n *network) cutLocked() {
	for c := range n.conns {
		c.closeEnds()
	}
	clear(n.conns)
}

// send carries what the client sends. A paused process closes no connection either.
func (c *pipedConn) send() {
	defer c.close()
	buffer := make([]byte, chunk)
	for {
		n, err := c.process.Read(buffer)
		<-c.network.running()
		if n > 0 && !c.network.isPartitioned() {
			if _, err := c.host.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// receive takes in what the server sends, also for a paused process.
func (c *pipedConn) receive(arrived chan<- []byte) {
	defer close(arrived)
	for {
		buffer := make([]byte, chunk)
		n, err := c.host.Read(buffer)
		if n > 0 && !c.network.isPartitioned() {
			arrived <- buffer[:n]
		}
		if err != nil {
			return
		}
	}
}

// deliver hands the client what has arrived. It ends after receive, which it never keeps waiting when the connection is closed.
func (c *pipedConn) deliver(arrived <-chan []byte) {
	for data := range arrived {
		<-c.network.running()
		if _, err := c.process.Write(data); err != nil {
			c.close()
		}
	}
	<-c.network.running()
	c.close()
}

// close closes the connection, which may be closed already.
func (c *pipedConn) close() {
	c.network.mu.Lock()
	defer c.network.mu.Unlock()
	delete(c.network.conns, c)
	c.closeEnds()
}

// closeEnds closes both pipes, whose Close returns no error.
func (c *pipedConn) closeEnds() {
	_ = c.process.Close()
	_ = c.host.Close()
}
