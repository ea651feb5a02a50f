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
func (w *network) dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-w.running():
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	host, err := w.server.Dial()
	if err != nil {
		return nil, err
	}
	l := &pipedConn{network: w, host: host}
	l.client, l.process = net.Pipe()
	if w.conns == nil {
		w.conns = make(map[*pipedConn]struct{})
	}
	w.conns[l] = struct{}{}
	arrived := make(chan []byte, backlog)
	go l.send()
	go l.receive(arrived)
	go l.deliver(arrived)
	return l.client, nil
}

// stop cuts the connections, and refuses new ones.
func (w *network) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.cutLocked()
}

// partition swallows what the connections carry, and new ones too.
func (w *network) partition() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.partitioned = true
}

// start ends stop.
func (w *network) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = false
}

// heal ends partition. Connections that may have swallowed something are cut: they are of no use. A new one is made
// under mu, so it is either cut here or not partitioned.
func (w *network) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.partitioned {
		w.partitioned = false
		w.cutLocked()
	}
}

// pause holds up the process: it sends nothing, and what it is sent waits for it.
func (w *network) pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused == nil {
		w.paused = make(chan struct{})
	}
}

// resume ends pause.
func (w *network) resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused != nil {
		close(w.paused)
		w.paused = nil
	}
}

// restore ends stop, partition and pause.
func (w *network) restore() {
	w.start()
	w.heal()
	w.resume()
}

// running returns a channel that is closed as soon as the process runs.
func (w *network) running() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.paused != nil {
		return w.paused
	}
	runs := make(chan struct{})
	close(runs)
	return runs
}

func (w *network) isPartitioned() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.partitioned
}

func (w *network) cutLocked() {
	for l := range w.conns {
		l.closeEnds()
	}
	clear(w.conns)
}

// send carries what the client sends. A paused process closes no connection either.
func (l *pipedConn) send() {
	defer l.close()
	buffer := make([]byte, chunk)
	for {
		n, err := l.process.Read(buffer)
		<-l.network.running()
		if n > 0 && !l.network.isPartitioned() {
			if _, err := l.host.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// receive takes in what the server sends, also for a paused process.
func (l *pipedConn) receive(arrived chan<- []byte) {
	defer close(arrived)
	for {
		buffer := make([]byte, chunk)
		n, err := l.host.Read(buffer)
		if n > 0 && !l.network.isPartitioned() {
			arrived <- buffer[:n]
		}
		if err != nil {
			return
		}
	}
}

// deliver hands the client what has arrived. It ends after receive, which it never keeps waiting when the connection is closed.
func (l *pipedConn) deliver(arrived <-chan []byte) {
	for data := range arrived {
		<-l.network.running()
		if _, err := l.process.Write(data); err != nil {
			l.close()
		}
	}
	<-l.network.running()
	l.close()
}

// close closes the connection, which may be closed already.
func (l *pipedConn) close() {
	l.network.mu.Lock()
	defer l.network.mu.Unlock()
	delete(l.network.conns, l)
	l.closeEnds()
}

// closeEnds closes both pipes, whose Close returns no error.
func (l *pipedConn) closeEnds() {
	_ = l.process.Close()
	_ = l.host.Close()
}
