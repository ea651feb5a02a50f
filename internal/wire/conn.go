// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// errUnsent says that a connection was given up, with a reply to every request that was sent. So what fails with it was not sent,
// and can be sent again.
var errUnsent = errors.New("its connection was given up before the request was sent")

// drainFor is how long a connection that is being given up waits for the replies to what was sent.
const drainFor = time.Second

// conn is a connection of a Connector. It counts requests and replies as they pass. So it can be given up between
// them, and it sees the refusals and what the server says of itself.
//
//	        its age, a refusal          a refusal, and all replies are here
//	open --------------------> draining -----------------------------------> over
//	  ^                            |
//	  +-- its age, and all replies are here: the inner connection is replaced
//	  +-- its age, and a reply is late
//
// While it drains, Write blocks. After a refusal Write fails with errUnsent then, and so does Read: the client has
// nothing to wait for on it, and connects anew for what it has not sent. If replies are late, it closes all the same, with
// errLeft. See replace.go for its age.
//
// One goroutine reads and one writes, as of every net.Conn of the client. mu guards what both use. It is acquired
// before the Connector's lock, and not held during a call of the inner connection.
type conn struct {
	dialed

	endpoint *endpoint
	born     time.Time

	once  sync.Once
	spoke chan struct{} // closed by the first Write, or by Close
	shut  atomic.Bool   // close was called
	sleep asleep

	mu struct {
		sync.Mutex
		requests, replies frames
		sent, received    uint64
		hello             uint64 // which request is the last HELLO
		good              bool   // the server has replied something other than a refusal
		unused            bool   // the client gave it up before its first request
		member            bool   // the server is a member of a cluster, where addresses mean one server each
		pinned            bool   // it has a state at the server: age does not end it
		listens           bool   // it has subscriptions: requests and replies do not pair
		departed          bool   // it is among the departures
		draining          bool
		leaving           bool          // it drains because of a refusal
		free              chan struct{} // closed when it does not drain any more; nil if it does not
		refusal           string        // the last reply before it was good
		over              error         // why it is given up
		refused, last     time.Time     // when lasting refusals began, and the last of them
		timer             *time.Timer   // its age, or the end of its drain

		inner    net.Conn
		deadline time.Time // of inner
		replacement
	}
}

func newConn(inner net.Conn, p *endpoint, made dialed) *conn {
	c := &conn{dialed: made, endpoint: p, born: time.Now(), spoke: make(chan struct{})}
	c.mu.inner, c.mu.requests.words = inner, true
	if life := p.connector.maxAge(); life > 0 {
		c.timeLocked(life) // no other goroutine has it yet
	}
	return c
}

// timeLocked makes tick be called, and replaces the last time.
func (c *conn) timeLocked(in time.Duration) {
	if c.mu.timer == nil {
		c.mu.timer = time.AfterFunc(in, c.tick) //nolint:forbidigo // stopped by end and Close
		return
	}
	c.mu.timer.Reset(in)
}

// tick ends the connection's age, or its drain.
func (c *conn) tick() {
	c.mu.Lock()
	draining := c.mu.draining
	c.mu.Unlock()
	if draining {
		c.late()
	} else {
		c.aged()
	}
}

func (c *conn) speak() { c.once.Do(func() { close(c.spoke) }) }

// Write implements net.Conn. The client has registered the request before it writes, so the reply finds it.
func (c *conn) Write(b []byte) (int, error) {
	c.speak()
	c.mu.Lock()
	for c.mu.free != nil && !c.mu.requests.within() {
		free := c.mu.free
		c.mu.Unlock()
		<-free
		c.mu.Lock()
	}
	if over := c.mu.over; over != nil {
		c.mu.Unlock()
		return 0, over
	}
	if !c.mu.good {
		c.mu.greeting = append(c.mu.greeting, b...)
	}
	c.countLocked(b) // before it is sent: inner is neither ended nor replaced between the two
	inner := c.mu.inner
	c.mu.Unlock()
	return inner.Write(b)
}

// countLocked counts the requests that begin in b.
func (c *conn) countLocked(b []byte) {
	f := &c.mu.requests
	for len(b) > 0 && !f.lost {
		if !f.within() {
			c.mu.sent++
		}
		var ended bool
		if b, ended = f.next(b); !ended {
			return
		}
		c.requestLocked(bytes.TrimSpace(f.text))
	}
}

// requestLocked records a request that says something of the connection, by its first word.
func (c *conn) requestLocked(word []byte) {
	is := func(known string) bool { return len(word) == len(known) && strings.EqualFold(string(word), known) }
	if !is("PING") {
		c.usedLocked()
	}
	switch {
	case is("EVALSHA"):
	case is("HELLO"):
		c.mu.hello = c.mu.sent
		c.mu.replies.whole = c.mu.hello == c.mu.received+1 && !c.mu.replies.within()
	case is("SUBSCRIBE"), is("PSUBSCRIBE"), is("SSUBSCRIBE"), is("MONITOR"):
		c.mu.listens, c.mu.pinned = true, true
	case is("WATCH"), is("MULTI"):
		c.mu.pinned = true
	case is("PING"):
		// The client asks so before it closes a connection, also one that it never used.
		c.mu.unused = c.mu.unused || c.mu.sent == 1
	}
}

// Read implements net.Conn. It reads at once, since the error of the first Write to a closed connection may
// discard what the server had sent. It returns after that Write, or after Close.
func (c *conn) Read(b []byte) (int, error) {
	inner := c.current()
	n, err := inner.Read(b)
	for n == 0 && err != nil && c.current() != inner { // it was replaced, when no reply was due
		inner = c.current()
		n, err = inner.Read(b)
	}
	if n > 0 {
		c.sleep.heard()
	}
	<-c.spoke
	c.mu.Lock()
	found := c.hearLocked(b[:n])
	over, good := c.mu.over, c.mu.good
	finished := c.mu.draining && over == nil && c.idleLocked()
	if err != nil && over == nil {
		c.departLocked()
	}
	c.mu.Unlock()
	switch {
	case found != "":
		c.endpoint.leave(c, found)
	case finished:
		c.drained()
	}
	switch {
	case n > 0:
		return n, nil
	case over != nil:
		return 0, over
	case err != nil && !good:
		err = &connectError{err}
	}
	if err != nil {
		c.endpoint.broke(c, err)
	}
	return n, err
}

// hearLocked counts the replies that end in b, and returns why the server is not the one that is wanted, or "".
func (c *conn) hearLocked(b []byte) (found string) {
	f := &c.mu.replies
	for len(b) > 0 {
		var ended bool
		if b, ended = f.next(b); !ended {
			break
		}
		if f.kind != '>' { // which is a message
			c.mu.received++
			switch {
			case f.kind == '-' || f.kind == '!':
				if words := string(bytes.TrimSpace(f.text)); c.refusesLocked(words) {
					found = words
				}
			case f.whole:
				found = c.helloLocked(found)
			default:
				c.goodLocked()
			}
		}
		f.whole = c.mu.hello == c.mu.received+1
	}
	if c.mu.leaving {
		return "" // it is known
	}
	return found
}

func (c *conn) goodLocked() {
	if !c.mu.good && !c.mu.unused {
		c.mu.good, c.mu.greets = true, c.mu.sent // the client writes nothing else before the first reply
		c.endpoint.accepted()
	}
}

// helloLocked reads what the server says of itself. A replica is left when it says so later than at first: what a
// program reads there is old, and no refusal says so.
func (c *conn) helloLocked(found string) string {
	said := c.mu.replies.text
	first := !c.mu.good
	c.goodLocked()
	if bytes.Contains(said, []byte("mode\r\n$7\r\ncluster")) {
		c.mu.member = true
	}
	if !first && saysReplica(said) {
		return "READONLY the server is a replica"
	}
	return found
}

// saysReplica reports whether a reply to HELLO is that of a replica.
func saysReplica(said []byte) bool {
	return bytes.Contains(said, []byte("role\r\n$7\r\nreplica")) || bytes.Contains(said, []byte("role\r\n$5\r\nslave"))
}

// refusesLocked reports whether the connection is to be left after a refusal.
func (c *conn) refusesLocked(words string) bool {
	if !c.mu.good {
		c.mu.refusal = words
		return false // the client gives it up, or has another way to begin
	}
	if to := movedTo(words); to != "" {
		return c.isHereLocked(to)
	}
	now := time.Now()
	switch doubtOf(words) {
	case wrong:
		return true
	case lasting:
		if now.Sub(c.mu.last) > doubtsApart {
			c.mu.refused = now
		}
		c.mu.last = now
		return now.Sub(c.mu.refused) >= doubtsAfter
	case sure:
	}
	return false
}

// isHereLocked reports whether a redirection leads to this very connection, which the client would follow for ever.
// A server that is no member of a cluster, or whose client follows no redirection, can only mean: not here.
func (c *conn) isHereLocked(to string) bool {
	if c.endpoint.connector.options.SingleServer || !c.mu.member {
		return true
	}
	return c.endpoint.isAt(to, addressOf(c.mu.inner))
}

// idleLocked reports whether nothing that was sent waits for a reply.
func (c *conn) idleLocked() bool {
	return !c.mu.requests.lost && !c.mu.replies.lost && !c.mu.requests.within() && c.mu.received >= c.mu.sent
}

// drain begins to give the connection up. leaving: at all events.
func (c *conn) drain(leaving bool) { //nolint:revive // one state of both
	c.mu.Lock()
	if c.mu.over != nil || c.mu.leaving || c.mu.draining && !leaving {
		c.mu.Unlock()
		return
	}
	c.mu.draining, c.mu.leaving = true, leaving
	if c.mu.free == nil {
		c.mu.free = make(chan struct{})
	}
	now := c.idleLocked() || c.mu.listens
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	if !now {
		c.timeLocked(drainFor)
	}
	c.mu.Unlock()
	if now {
		c.drained()
	}
}

// drained ends a drain: nothing that was sent waits for a reply, and Write is blocked.
func (c *conn) drained() {
	c.mu.Lock()
	leaving := c.mu.leaving
	c.mu.Unlock()
	if leaving {
		c.end(errUnsent)
	} else {
		c.replace()
	}
}

// late ends a drain whose replies have not come.
func (c *conn) late() {
	c.mu.Lock()
	leaving := c.mu.leaving
	if !leaving && c.mu.over == nil {
		c.mu.draining = false
		c.freeLocked()
		c.keepLocked()
	}
	c.mu.Unlock()
	if leaving {
		c.end(errLeft)
	}
}

func (c *conn) freeLocked() {
	if c.mu.free != nil {
		close(c.mu.free)
		c.mu.free = nil
	}
}

// end closes the connection, for a reason that Read and Write return.
func (c *conn) end(why error) {
	c.mu.Lock()
	if c.mu.over == nil {
		c.mu.over = why
	}
	c.freeLocked()
	if c.mu.timer != nil {
		c.mu.timer.Stop()
	}
	c.departLocked()
	c.mu.Unlock()
	_ = c.close()
}

// departLocked records that the connection ends, and that the client did not close it.
func (c *conn) departLocked() {
	if c.mu.good && !c.mu.listens && !c.mu.departed {
		c.mu.departed = true
		c.endpoint.gone.Add(1)
	}
}

func (c *conn) close() error {
	if !c.shut.Swap(true) {
		closings.Add(1) // before the client picks another connection
		forget(c)
		c.endpoint.ended(c)
	}
	c.speak()
	c.mu.Lock()
	inner, next := c.mu.inner, c.mu.next // no other replaces it: the connection is over
	c.mu.next = nil
	c.mu.Unlock()
	if next != nil {
		_ = next.Close()
	}
	return inner.Close()
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	c.freeLocked()
	if c.mu.over == nil {
		c.mu.over = net.ErrClosed
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

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.current().RemoteAddr() }

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
