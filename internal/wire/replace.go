// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/rueidis"

	"github.com/signalbox-go/signalbox/internal/timers"
)

// An address may lead to another server while the old one still runs, and refuses nothing. So a connection that is
// used is replaced when it has reached its age. The client does not notice: a second inner connection is made and greeted as the
// first one was, and takes its place when no reply is due. Until then the first one serves, and it stays if the second
// one cannot be had. A request is sent on one of them, once.
//
// A connection that is not used is not replaced before it is used again. Then its first request waits for the second connection: the
// address may have led elsewhere for long.

const (
	// connectNextTimeout bounds an attempt to make the second connection.
	connectNextTimeout = 2 * time.Second
	// nextTimeout bounds how long a request waits for that. The client gives up a connection that is silent for 2 s.
	nextTimeout = time.Second
)

// dialSettings are the arguments with which a connection was made.
type dialSettings struct {
	dialer   *net.Dialer
	config   *tls.Config
	sentinel bool // the connection is one to a sentinel, which may have a user of its own
}

// replacement is the state of a connection's replacement by the next one. The connection's lock guards it.
type replacement struct {
	greeting   greeting
	used       bool               // a request was sent since the connection was made, except pings
	awaitsUse  bool               // the connection has reached its age, and is replaced when it is used
	next       net.Conn           // the second connection, or nil
	nextHello  []byte             // the reply to HELLO on the second connection
	cancelNext context.CancelFunc // ends the attempt to make the second connection; nil if there was none
}

// pingRequest is what the client writes on a connection that it does not use.
//
//nolint:gochecknoglobals // a constant
var pingRequest = []byte("*1\r\n$4\r\nPING\r\n")

// beginUseLocked begins to replace a connection that has reached its age unused, before its first request, which waits for that.
func (c *conn) beginUseLocked() {
	c.mu.awaitsUse, c.mu.used = false, true
	if c.mu.drainEnded == nil && c.mu.endErr == nil {
		c.mu.drainEnded = make(chan struct{})
		c.setTimerLocked(0)
	}
}

// awaitNext blocks until Write may be tried again. The first request of a connection that was not used waits for the second connection
// for nextTimeout at most, and is written on the first one then. The attempt continues meanwhile.
func (c *conn) awaitNext(ended <-chan struct{}) {
	timeout := time.NewTimer(nextTimeout)
	defer timeout.Stop()
	select {
	case <-ended:
	case <-timeout.C:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.unblockUnlessDrainingLocked()
	}
}

// reachedMaxAge is called when the connection has reached its age, on a goroutine of its timer. One call runs at a time:
// the next one is scheduled at its end.
func (c *conn) reachedMaxAge() {
	c.mu.Lock()
	follows := c.mu.clusterMember && !c.endpoint.connector.options.SingleServer // its addresses mean one server each, and the client finds them
	keeps := c.mu.endErr != nil || c.mu.pinned || follows || c.mu.requests.unreadable || c.mu.replies.unreadable
	switch {
	case keeps:
		c.unblockUnlessDrainingLocked()
	case !c.mu.accepted: // the server may still accept the client
		keeps = true
		c.restartAgeLocked()
	case !c.mu.used:
		keeps, c.mu.awaitsUse = true, true
	}
	c.mu.Unlock()
	if keeps {
		return
	}
	if c.connectNext() {
		c.drain(nil)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restartAgeLocked()
}

// unblockUnlessDrainingLocked lets a request be written that waits for the second connection.
func (c *conn) unblockUnlessDrainingLocked() {
	if !c.mu.draining {
		c.unblockWritesLocked()
	}
}

// restartAgeLocked keeps the inner connection for another age.
func (c *conn) restartAgeLocked() {
	c.unblockUnlessDrainingLocked()
	if next := c.mu.next; next != nil {
		c.mu.next = nil
		go func() { _ = next.Close() }() // which may take a while with TLS
	}
	if c.mu.endErr == nil && c.mu.leaving == nil {
		c.setTimerLocked(c.endpoint.connector.maxAge())
	}
}

// connectNext makes the second connection, and reports whether its server accepts the client. If not, the reason is reported, and
// the first connection serves for another age: what was refused may be accepted then.
func (c *conn) connectNext() bool {
	e := c.endpoint
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.mu.Lock()
	c.mu.cancelNext = cancel
	ended, requests := c.mu.endErr != nil, c.mu.greeting.requests()
	c.mu.Unlock()
	if ended || !e.awaitReplacement(ctx) {
		return false
	}
	err := c.makeNext(ctx, requests)
	if err != nil && ctx.Err() == nil {
		e.replaced(c, err)
	}
	return err == nil
}

// makeNext makes the second connection, and greets its server as the client greeted the first one, with the credentials of now. It
// holds no lock while it connects and while the program's function for credentials runs. It ends when ctx does.
func (c *conn) makeNext(ctx context.Context, requests []greetingRequest) error {
	e := c.endpoint
	dialCtx, cancel := context.WithTimeout(ctx, connectNextTimeout)
	defer cancel()
	next, fault, err := e.connect(dialCtx, c.dialer, c.config)
	if err != nil {
		return err
	}
	c.mu.Lock()
	ended := c.mu.endErr != nil
	if !ended {
		c.mu.next = next // close ends it from now on
	}
	c.mu.Unlock()
	if ended {
		_ = next.Close()
		return net.ErrClosed
	}
	fetches := c.credentials().function != nil
	var now rueidis.AuthCredentials
	if fetches {
		if now, err = c.credentials().fetch(ctx, next.RemoteAddr()); err != nil {
			return err
		}
		requests = withCredentials(requests, now)
	}
	hello, err := greet(next, requests)
	if err != nil {
		return withFault(err, fault)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.nextHello = hello
	if fetches {
		c.mu.given = now
	}
	return nil
}

// replace replaces the first connection by the second. No reply is due, and Write is blocked. So the client has no
// request on the first one, and the error that its end gives to Read is not for the client.
func (c *conn) replace() {
	c.mu.Lock()
	if c.mu.endErr != nil || c.mu.leaving != nil || !c.mu.draining || c.mu.next == nil {
		c.mu.Unlock()
		return // the connection ends, or was just replaced
	}
	if c.mu.pinned { // by a request that was written while the second connection was made
		c.keepLocked()
		c.mu.Unlock()
		return
	}
	old := c.mu.inner
	c.mu.inner, c.mu.next = c.mu.next, nil
	c.mu.used, c.mu.draining, c.mu.redirects = false, false, false
	c.describeLocked(c.mu.nextHello)
	if !c.mu.deadline.IsZero() {
		_ = c.mu.inner.SetDeadline(c.mu.deadline)
	}
	c.sleepCheck.provenAt.Store(int64(timers.Mono()))
	c.sleepCheck.suspectedAt.Store(0)
	c.ended()
	c.endpoint.setRemote(c.mu.inner)
	c.unblockWritesLocked()
	c.setTimerLocked(c.endpoint.connector.maxAge())
	c.mu.Unlock()
	c.endpoint.replaced(c, nil)
	_ = old.Close()
}

// setRemote records the host to which the address leads.
func (e *endpoint) setRemote(to net.Conn) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	e.remoteHost, _ = canonical(addressOf(to), "")
}
