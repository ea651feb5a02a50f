// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// requestFault is a fault of one request of a client, as redistest.Fault does on a real wire. What a connection
// swallows once it swallows until it is closed.
type requestFault struct {
	kind  redistest.FaultKind
	delay time.Duration

	mu struct {
		sync.Mutex
		left    int // the requests until it happens; 0 before it is armed and afterwards
		matches []*scripts.Script
	}
	fired chan struct{} // closed when it has happened
}

func newRequestFault(kind redistest.FaultKind) *requestFault {
	return &requestFault{kind: kind, delay: 50 * time.Millisecond, fired: make(chan struct{})}
}

// arm gives it to the at-th request from now on that runs one of the scripts, or any script if scripts
// is empty.
func (r *requestFault) arm(at int, matches ...*scripts.Script) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.left, r.mu.matches = at, matches
}

// hits reports whether this is the request. Several that are sent together count as one.
func (r *requestFault) hits(request []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.left == 0 || !r.matchesLocked(request) {
		return false
	}
	r.mu.left--
	if r.mu.left == 0 {
		close(r.fired)
	}
	return r.mu.left == 0
}

func (r *requestFault) matchesLocked(request []byte) bool {
	for _, script := range r.mu.matches {
		if bytes.Contains(request, []byte(script.SHA1)) || bytes.Contains(request, []byte(script.Source)) {
			return true
		}
	}
	return len(r.mu.matches) == 0 && bytes.Contains(request, []byte("\r\nEVAL"))
}

// on puts the fault on the connections of a client.
func (r *requestFault) on(o *rueidis.ClientOption) {
	dial := o.DialCtxFn
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, c)
		if err != nil {
			return nil, err
		}
		return &faultyConn{Conn: conn, fault: r}, nil
	}
}

// faultyConn is the client's end of a connection.
type faultyConn struct {
	net.Conn

	fault                        *requestFault
	unsubscribed, mute, cutAfter atomic.Bool // swallows requests, or replies; is closed after the next reply
	closed                       atomic.Bool
	delay                        atomic.Int64
}

// Close implements net.Conn.
func (c *faultyConn) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// Write implements net.Conn.
func (c *faultyConn) Write(b []byte) (int, error) {
	if !c.unsubscribed.Load() && c.fault.hits(b) {
		switch c.fault.kind {
		case redistest.CutBeforeRequest:
			_ = c.Close()
			return 0, io.ErrClosedPipe
		case redistest.CutAfterRequest:
			c.mute.Store(true)
			defer c.Close()
		case redistest.CutAfterReply:
			c.cutAfter.Store(true)
		case redistest.DelayRequest:
			time.Sleep(c.fault.delay)
		case redistest.DelayReply:
			c.delay.Store(int64(c.fault.delay))
		case redistest.SwallowRequest:
			c.unsubscribed.Store(true)
		default: // SwallowReply
			c.mute.Store(true)
		}
	}
	if c.unsubscribed.Load() && !c.closed.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// Read implements net.Conn.
func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for err == nil && c.mute.Load() {
		n, err = c.Conn.Read(b)
	}
	time.Sleep(time.Duration(c.delay.Swap(0)))
	if c.cutAfter.Load() {
		_ = c.Close()
	}
	return n, err
}

// requestFaultSession is fixture.session with a fault that may happen to the session's requests.
func (f *fixture) requestFaultSession(r *requestFault, options ...signalbox.SessionOption) (*signalbox.Session, *wire, func()) {
	f.Helper()
	c, link := f.client(f.T, r.on, func(o *rueidis.ClientOption) { o.ConnWriteTimeout, o.Dialer.KeepAlive = time.Second, time.Second })
	of := signalbox.NewSession(c, options...)
	return of, link, func() {
		_ = of.Close(locktest.Ended()) // says that leases were left, which the test knows
		c.Close()
	}
}

// requireIdle fails the test if a session still does something in the background.
func requireIdle(t *testing.T, sessions ...*signalbox.Session) {
	t.Helper()
	for _, s := range sessions {
		require.True(t, (*session.Handle)(s).Session().IsIdle(), "something is under way")
	}
}
