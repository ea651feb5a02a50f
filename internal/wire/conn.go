// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// errUnsent says that a connection was given up, with a reply to every request that was sent. So what fails with it was not sent,
// and can be sent again.
var errUnsent = errors.New("its connection was given up before the request was sent")

// drainTimeout is how long a connection that is being given up waits for the replies to what was sent.
const drainTimeout = time.Second

// conn is a connection of a Connector. It counts requests and replies as they pass. So it can be given up between
// them, and it sees the refusals and what the server says of itself.
//
//	        its age, a refusal          a refusal, and all replies are here
//	open --------------------> draining -----------------------------------> over
//	  ^                            |
//	  +-- its age, and all replies are here: the inner connection is replaced
//	  +-- its age, and a reply is late
//
// While it drains, Write blocks. So does the first Write after an age in which the connection was idle. After a refusal Write fails
// with errUnsent, and so does Read: the client has nothing to wait for on it, and connects anew for what it has not sent. If replies
// are late, it closes all the same, with errConnClosed. See replace.go for its age.
//
// One goroutine reads and one writes, as of every net.Conn of the client. mu guards what both use. It is acquired
// before the Connector's lock, and not held during a call of the inner connection.
type conn struct {
	dialSettings

	endpoint *endpoint
	born     time.Time

	writeOnce  sync.Once
	wrote      chan struct{} // closed by the first Write, or by Close
	closed     atomic.Bool   // close was called
	sleepCheck sleepCheck

	mu struct {
		sync.Mutex
		requests, replies         frameScanner
		sent, received            uint64
		helloAt                   uint64           // the number of the last HELLO among the requests
		accepted                  bool             // the server has replied something other than a refusal
		unused                    bool             // the client gave it up before its first request
		clusterMember             bool             // the server is a member of a cluster, where addresses mean one server each
		clusterPrimary            bool             // the server was a primary of it, by the last HELLO
		helloRead                 time.Time        // when the reply to the last HELLO was read
		redirects                 bool             // the server redirected as such a primary, so connecting anew is of no use to a client of one server
		pinned                    bool             // the connection has a state at the server: age does not end it
		subscribed                bool             // the connection has subscriptions
		special                   []specialRequest // those that wait for a reply
		confirmations             int64            // the confirmations to come behind the first one of a request
		endCounted                bool             // the end was recorded as an event
		draining                  bool
		given                     rueidis.AuthCredentials // the credentials that the program's function returned last, for this connection
		awaitsLogin               bool                    // the client sends these next, in an AUTH
		loginAt                   uint64                  // the number of the last such AUTH among the requests; 0 for none
		leaving                   error                   // the reason for which it ends after the drain, an errUnsent; nil if it is replaced
		drainEnded                chan struct{}           // closed at the end of what Write waits for: a drain, or the second connection; nil if there is neither
		refusal                   string                  // the reason for which the server has not accepted the client, or ""
		endErr                    error                   // the reason for which the connection ends
		suspectSince, lastSuspect time.Time               // the times of the first and the last of several suspicious refusals
		timer                     *time.Timer             // the end of the age, or of the drain

		inner    net.Conn  // the connection that carries the bytes
		deadline time.Time // the deadline of inner
		tlsFault error     // why it was made with files that were replaced by unusable ones since; nil if it was not
		replacement
	}
}

func newConn(inner net.Conn, e *endpoint, made dialSettings, tlsFault error) *conn {
	c := &conn{dialSettings: made, endpoint: e, born: time.Now(), wrote: make(chan struct{})}
	c.mu.inner, c.mu.requests.keepWord, c.mu.replies.keepWord, c.mu.tlsFault = inner, true, true, tlsFault
	c.mu.replies.keepWords = made.sentinel
	if age := e.connector.maxAge(); age > 0 {
		c.mu.Lock() // in a process that stands still the timer may fire before its field is written
		c.setTimerLocked(age)
		c.mu.Unlock()
	}
	return c
}

// setTimerLocked schedules onTimer, and replaces an earlier schedule.
func (c *conn) setTimerLocked(in time.Duration) {
	if c.mu.timer == nil {
		c.mu.timer = time.AfterFunc(in, c.onTimer) //nolint:forbidigo // stopped by end and Close
		return
	}
	c.mu.timer.Reset(in)
}

// onTimer is called at the end of the connection's age, or of its drain.
func (c *conn) onTimer() {
	c.mu.Lock()
	draining := c.mu.draining
	c.mu.Unlock()
	if draining {
		c.drainTimedOut()
	} else {
		c.reachedMaxAge()
	}
}

// markWritten lets Read return.
func (c *conn) markWritten() { c.writeOnce.Do(func() { close(c.wrote) }) }

// Write implements net.Conn. The client has registered the request before it writes, so the reply finds it.
func (c *conn) Write(b []byte) (int, error) {
	c.markWritten()
	c.mu.Lock()
	if c.mu.awaitsUse && !bytes.Equal(b, pingRequest) {
		c.beginUseLocked()
	}
	for c.mu.drainEnded != nil && !c.mu.requests.insideValue() {
		drainEnded, draining := c.mu.drainEnded, c.mu.draining
		c.mu.Unlock()
		if draining {
			<-drainEnded
		} else {
			c.awaitNext(drainEnded)
		}
		c.mu.Lock()
	}
	if endErr := c.mu.endErr; endErr != nil {
		c.mu.Unlock()
		return 0, endErr
	}
	c.mu.greeting.noteWritten(b)
	if c.idleLocked() {
		c.sleepCheck.sending()
	}
	c.countRequestsLocked(b) // before it is sent: inner is neither ended nor replaced between the two
	inner, gathers := c.mu.inner, c.mu.sent >= c.mu.received+gatherFrom
	c.mu.Unlock()
	n, err := inner.Write(b)
	if gathers {
		runtime.Gosched() // what others send meanwhile goes out in one write
	}
	return n, err
}

// gatherFrom is from how many requests without a reply on the writer lets other goroutines run after a write: what they send
// meanwhile goes out in one write, which costs both sides less. Fewer callers would wait for nothing.
const gatherFrom = 8

// Read implements net.Conn. It reads at once, since the error of the first Write to a closed connection may
// discard what the server had sent. It returns after that Write, or after Close.
func (c *conn) Read(b []byte) (int, error) {
	inner := c.current()
	n, err := inner.Read(b)
	for n == 0 && err != nil && c.current() != inner { // it was replaced, when no reply was due
		inner = c.current()
		n, err = inner.Read(b)
	}
	for more := 0; n > 0 && err == nil && n < len(b) && c.endsInsideRefusal(b[:n]); n += more {
		more, err = inner.Read(b[n:]) // a secret in it would come in two pieces
	}
	if n > 0 {
		c.sleepCheck.received()
	}
	<-c.wrote
	c.mu.Lock()
	found, areReplies := c.countRepliesLocked(b[:n])
	endErr, accepted, fault := c.mu.endErr, c.mu.accepted, c.mu.tlsFault
	finished := c.mu.draining && endErr == nil && c.idleLocked()
	if err != nil && endErr == nil {
		c.countEndLocked()
	}
	c.mu.Unlock()
	switch {
	case !areReplies:
		n, err, endErr = 0, errNoReply, nil
	case found != "":
		c.endpoint.giveUpAll(c, found)
	case finished:
		c.drained()
	}
	switch {
	case n > 0:
		return n, nil
	case endErr != nil:
		return 0, endErr
	case err != nil && !accepted:
		err = &connectError{withFault(err, fault)} // with TLS 1.3 the server refuses a certificate here
	}
	if err != nil {
		c.endpoint.recordBroken(c, err)
	}
	if !areReplies || err != nil && c.sentinel {
		c.end(err)
	}
	return n, err
}

// drain begins to give the connection up. With a reason to leave, which is an errUnsent, it ends even if another connection cannot be made.
func (c *conn) drain(leaving error) {
	c.mu.Lock()
	if c.mu.endErr != nil || c.mu.leaving != nil || c.mu.draining && leaving == nil {
		c.mu.Unlock()
		return
	}
	c.mu.draining, c.mu.leaving = true, leaving
	if c.mu.drainEnded == nil {
		c.mu.drainEnded = make(chan struct{})
	}
	finished := c.idleLocked() || c.mu.subscribed
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	if !finished {
		c.setTimerLocked(drainTimeout)
	}
	c.mu.Unlock()
	if finished {
		c.drained()
	}
}

// drained ends a drain: nothing that was sent waits for a reply, and Write is blocked.
func (c *conn) drained() {
	c.mu.Lock()
	leaving := c.mu.leaving
	c.mu.Unlock()
	if leaving != nil {
		c.end(leaving)
	} else {
		c.replace()
	}
}

// keepLocked ends a drain: the first connection serves for another age.
func (c *conn) keepLocked() {
	c.mu.draining = false
	c.restartAgeLocked()
}

// drainTimedOut ends a drain whose replies have not come.
func (c *conn) drainTimedOut() {
	c.mu.Lock()
	leaving := c.mu.leaving != nil
	keeps := !leaving && c.mu.endErr == nil
	if keeps {
		c.keepLocked()
	}
	c.mu.Unlock()
	switch {
	case leaving:
		c.end(errConnClosed)
	case keeps:
		c.endpoint.replaced(c, errLateReply)
	}
}

func (c *conn) unblockWritesLocked() {
	if c.mu.drainEnded != nil {
		close(c.mu.drainEnded)
		c.mu.drainEnded = nil
	}
}

// end closes the connection, for a reason that Read and Write return.
func (c *conn) end(why error) {
	c.mu.Lock()
	alone := c.mu.endErr == nil && c.sentinel && c.mu.subscribed && c.speaksRESP2Locked()
	if c.mu.endErr == nil {
		c.mu.endErr = why
	}
	c.unblockWritesLocked()
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	c.countEndLocked()
	c.mu.Unlock()
	if alone {
		c.endpoint.endOthers(c, why)
	}
	_ = c.close()
}

// countEndLocked records that the connection ends, and that the client did not close it.
func (c *conn) countEndLocked() {
	if c.mu.accepted && !c.mu.subscribed && !c.mu.endCounted {
		c.mu.endCounted = true
		c.ended()
	}
}

// ended records an end of the connection to its server, for those that make calls there.
func (c *conn) ended() {
	if !c.sentinel {
		c.endpoint.connector.happened(ConnEnded)
	}
}

// close closes the inner connection, and the next one if there is one.
func (c *conn) close() error {
	if !c.closed.Swap(true) {
		closedConns.Add(1) // before the client picks another connection
		unregister(c)
		c.endpoint.recordClosed(c)
	}
	c.markWritten()
	c.mu.Lock()
	inner, next := c.mu.inner, c.mu.next // no other replaces it: the connection is over
	c.mu.next = nil
	if c.mu.cancelNext != nil {
		c.mu.cancelNext()
	}
	c.mu.Unlock()
	if next != nil {
		_ = next.Close()
	}
	return inner.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.unblockWritesLocked()
	if c.mu.endErr == nil {
		c.mu.endErr = net.ErrClosed
	}
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	c.mu.Unlock()
	return c.close()
}

// current returns the inner connection.
func (c *conn) current() net.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.inner
}

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.current().LocalAddr() }

// RemoteAddr implements net.Conn. The client passes it to the function for credentials.
func (c *conn) RemoteAddr() net.Addr { return connAddr{c} }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.deadline = at
	return c.mu.inner.SetDeadline(at)
}

// SetReadDeadline implements net.Conn. The client does not call it.
func (c *conn) SetReadDeadline(at time.Time) error { return c.current().SetReadDeadline(at) }

// SetWriteDeadline implements net.Conn. The client does not call it.
func (c *conn) SetWriteDeadline(at time.Time) error { return c.current().SetWriteDeadline(at) }
