// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// wire is the connections of one client. Each is a pipe to another pipe, so that what passes
// can be delayed or swallowed, and that the deadlines that a client sets work as ever.
type wire struct {
	swallowsReplies, swallowsRequests atomic.Bool
	refuses                           atomic.Bool                       // new connections are refused
	losesMessages                     atomic.Bool                       // messages that are published are lost
	latency                           atomic.Int64                      // the latency in each direction
	scripts                           atomic.Int64                      // how many the client has called
	onSend                            atomic.Pointer[func(sent []byte)] // is called with what the client sends, before that passes; nil: nothing is

	mu struct {
		sync.Mutex
		open       []net.Conn
		subscribed []net.Conn     // the open connections on which SUBSCRIBE was sent
		forgotten  []*atomic.Bool // a flag for each connection: it was forgotten
	}
}

func (w *wire) dial(to interface{ Dial() (net.Conn, error) }) (net.Conn, error) {
	inner, err := to.Dial()
	if err != nil {
		return nil, err
	}
	client, outer := net.Pipe()
	w.mu.Lock()
	defer w.mu.Unlock() // a connection that joins after a cut, or after wire heals, knows of it
	if w.refuses.Load() {
		_ = inner.Close()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	w.mu.open = append(w.mu.open, outer)
	forgotten := new(atomic.Bool)
	w.mu.forgotten = append(w.mu.forgotten, forgotten)
	go w.pump(&noticedConn{Conn: outer, wire: w}, inner, &w.swallowsRequests, forgotten)
	go w.pump(inner, outer, &w.swallowsReplies, forgotten)
	return client, nil
}

// forgetConnections swallows everything on the connections that are there, as a router does that has forgotten them. New ones work.
func (w *wire) forgetConnections() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, forgotten := range w.mu.forgotten {
		forgotten.Store(true)
	}
	w.mu.forgotten = nil
}

// goSilent swallows everything from now on, on the connections that are there and on new ones.
func (w *wire) goSilent() {
	w.swallowsRequests.Store(true)
	w.swallowsReplies.Store(true)
}

// refuse closes the connections, and refuses new ones.
func (w *wire) refuse() {
	w.refuses.Store(true)
	w.cut()
}

// heal lets everything pass again, on new connections: those that swallowed something are of no use.
func (w *wire) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutLocked()
	w.refuses.Store(false)
	w.swallowsRequests.Store(false)
	w.swallowsReplies.Store(false)
}

// cut closes the connections. The client makes new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cutLocked()
}

func (w *wire) cutLocked() {
	for _, c := range w.mu.open {
		_ = c.Close()
	}
	w.mu.open = nil
}

// breakSubscriptions closes the connections on which the client subscribes to channels.
func (w *wire) breakSubscriptions() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.mu.subscribed {
		_ = c.Close()
	}
	w.mu.subscribed = nil
}

// noticedConn is a connection of a client, which is noticed once the client subscribes on it.
type noticedConn struct {
	net.Conn

	wire       *wire
	subscribed bool
}

// Read implements net.Conn.
func (n *noticedConn) Read(b []byte) (int, error) {
	size, err := n.Conn.Read(b)
	n.wire.scripts.Add(int64(bytes.Count(b[:size], []byte("EVALSHA"))))
	if noticed := n.wire.onSend.Load(); noticed != nil {
		(*noticed)(b[:size])
	}
	if !n.subscribed && bytes.Contains(b[:size], []byte("SUBSCRIBE")) {
		n.subscribed = true
		n.wire.mu.Lock()
		defer n.wire.mu.Unlock()
		n.wire.mu.subscribed = append(n.wire.mu.subscribed, n.Conn)
	}
	return size, err
}

// delayedPacket is something that arrives when it is due.
type delayedPacket struct {
	data []byte
	due  time.Time
}

// delayLine has the packets that were sent and have not arrived, in order. A channel with room for all of them would be most of the
// memory of a connection.
type delayLine struct {
	mu      sync.Mutex
	packets []delayedPacket
	over    bool
	changed chan struct{} // gets a value if something changed since the last receive
}

func (d *delayLine) change(do func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	do()
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

func (d *delayLine) send(p delayedPacket) { d.change(func() { d.packets = append(d.packets, p) }) }

func (d *delayLine) close() { d.change(func() { d.over = true }) }

// receive returns what was sent since the last call. It waits until that is something, and returns nothing if mail is over.
func (d *delayLine) receive() (packets []delayedPacket) {
	for {
		d.mu.Lock()
		over := d.over
		packets, d.packets = d.packets, nil
		d.mu.Unlock()
		if len(packets) > 0 || over {
			return packets
		}
		<-d.changed
	}
}

// pump forwards what it reads, until either end is closed, and then closes both.
func (w *wire) pump(from, to net.Conn, swallows, forgotten *atomic.Bool) {
	under := &delayLine{changed: make(chan struct{}, 1)}
	go func() {
		defer from.Close()
		defer to.Close()
		for packets := under.receive(); len(packets) > 0; packets = under.receive() {
			for _, p := range packets {
				time.Sleep(time.Until(p.due))
				if swallows.Load() || forgotten.Load() || w.losesMessages.Load() && bytes.Contains(p.data, []byte("$7\r\nmessage\r\n")) {
					continue
				}
				if _, err := to.Write(p.data); err != nil {
					_ = from.Close()
				}
			}
		}
	}()
	defer under.close()
	buffer := make([]byte, 16<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		under.send(delayedPacket{append([]byte(nil), buffer[:n]...), time.Now().Add(time.Duration(w.latency.Load()))})
	}
}
