// SPDX-License-Identifier: Apache-2.0

package signalboxtest

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/alicebob/miniredis/v2"
)

// wire is the connections of one client. Each is a pipe to the server, so that a bubble can wait for it.
type wire struct {
	server *miniredis.Miniredis
	silent atomic.Bool // what is sent is swallowed, in both directions; written under mu

	mu    sync.Mutex
	away  bool               // connections are refused; guarded by mu
	links map[*link]struct{} // those that are open; guarded by mu
}

// link is one connection.
type link struct {
	net.Conn

	wire   *wire
	closed atomic.Bool // by either end; then it swallows nothing any more, since the client waits for the error
}

func (w *wire) dial() (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	conn, err := w.server.Dial()
	if err != nil {
		return nil, err
	}
	l := &link{Conn: conn, wire: w}
	if w.links == nil {
		w.links = make(map[*link]struct{})
	}
	w.links[l] = struct{}{}
	return l, nil
}

// refuse cuts the connections, and refuses new ones.
func (w *wire) refuse() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = true
	w.cutLocked()
}

// swallow makes the connections silent, and new ones too.
func (w *wire) swallow() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.silent.Store(true)
}

// accept ends refuse.
func (w *wire) accept() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.away = false
}

// hear ends swallow. Connections that may have swallowed something are cut: they are of no use. A new one is made
// under mu, so it is either cut here or not silent.
func (w *wire) hear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent.Swap(false) {
		w.cutLocked()
	}
}

// restore ends refuse and swallow.
func (w *wire) restore() {
	w.accept()
	w.hear()
}

func (w *wire) cutLocked() {
	for l := range w.links {
		l.closed.Store(true)
		_ = l.Conn.Close() // a pipe's Close returns no error
	}
	clear(w.links)
}

// Read implements net.Conn. What arrives while the wire is silent is dropped.
func (l *link) Read(b []byte) (int, error) {
	for {
		n, err := l.Conn.Read(b)
		if err != nil || !l.wire.silent.Load() {
			return n, err
		}
	}
}

// Write implements net.Conn.
func (l *link) Write(b []byte) (int, error) {
	if l.wire.silent.Load() && !l.closed.Load() {
		return len(b), nil
	}
	return l.Conn.Write(b)
}

// Close implements net.Conn.
func (l *link) Close() error {
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	l.closed.Store(true)
	delete(l.wire.links, l)
	return l.Conn.Close()
}
