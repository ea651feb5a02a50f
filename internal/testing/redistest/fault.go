// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-go/signalbox/internal/testing/tally"
)

// FaultKind says what a Fault does. A stream cannot have holes, so a fault of one request or reply
// affects all that follows in its direction on the same connection.
type FaultKind int

// The kinds of faults. Other connections are never affected.
const (
	// CutBeforeRequest closes the connection instead of forwarding the request.
	CutBeforeRequest FaultKind = iota + 1
	// CutAfterRequest forwards the request, waits for the reply, and closes the connection instead of delivering it.
	CutAfterRequest
	// CutAfterReply delivers the reply and then closes the connection.
	CutAfterReply
	// DelayRequest forwards the request after Fault.Delay, also if the client has gone by then.
	DelayRequest
	// DelayReply delivers the reply after Fault.Delay, counted from its arrival.
	DelayReply
	// SwallowRequest drops the request and all later ones. The connection stays open.
	SwallowRequest
	// SwallowReply drops the reply and everything later that the server sends. Requests are still executed.
	SwallowReply
	// HalfOpen drops the request and everything later in both directions. The connection stays open at both ends.
	HalfOpen
)

// noFault is the kind of no fault.
const noFault FaultKind = 0

// String returns the constant's name.
func (k FaultKind) String() string {
	return [...]string{
		"no fault", "CutBeforeRequest", "CutAfterRequest", "CutAfterReply", "DelayRequest",
		"DelayReply", "SwallowRequest", "SwallowReply", "HalfOpen",
	}[k]
}

// FaultKinds returns every kind, for tests that go through all of them.
func FaultKinds() []FaultKind {
	return []FaultKind{
		CutBeforeRequest, CutAfterRequest, CutAfterReply, DelayRequest,
		DelayReply, SwallowRequest, SwallowReply, HalfOpen,
	}
}

// Fault is something that goes wrong at one request.
type Fault struct {
	Kind FaultKind
	// At is the number of the request among those that count, from 1, over all connections.
	// Zero means the next one.
	At int
	// Delay is how long DelayRequest and DelayReply delay.
	Delay time.Duration
}

// ArmedFault is a fault that happens when its request comes.
type ArmedFault struct {
	fault Fault
	once  sync.Once
	begun atomic.Bool // the fault has begun; neither end has noticed it yet
	done  chan struct{}
}

// Fired returns a channel that is closed when the fault has happened: the connection was cut,
// the message was dropped, or its delay has begun.
func (a *ArmedFault) Fired() <-chan struct{} { return a.done }

// HasFired reports whether the fault has happened, or happens now: it is true if a client has noticed something of it.
func (a *ArmedFault) HasFired() bool { return a.begun.Load() }

// kind returns what a does; none if a is nil.
func (a *ArmedFault) kind() FaultKind {
	if a == nil {
		return noFault
	}
	return a.fault.Kind
}

// begin records that the fault happens now; a may be nil.
func (a *ArmedFault) begin() {
	if a != nil {
		a.begun.Store(true)
	}
}

// finish records that the fault has happened; a may be nil.
func (a *ArmedFault) finish() {
	a.begin()
	if a != nil {
		a.once.Do(func() {
			tally.Fault(a.fault.Kind.String())
			close(a.done)
		})
	}
}

// Match reports whether a request counts for a proxy. It gets the words of a request and is called from
// many goroutines.
type Match func(req []string) bool

// Commands matches requests by their command, in any case.
func Commands(names ...string) Match {
	return func(req []string) bool {
		if len(req) == 0 {
			return false
		}
		for _, name := range names {
			if strings.EqualFold(req[0], name) {
				return true
			}
		}
		return false
	}
}

// requestCounter counts the requests of a proxy and hands out the faults armed for them.
type requestCounter struct {
	mu struct {
		sync.Mutex
		match    Match
		hook     func(k int, req []string)
		armed    []*ArmedFault
		requests int
		replies  int
	}
}

// countedRequest is a request, as it was counted, and its fault.
type countedRequest struct {
	number int // the number of the request, 0 if it does not count
	fault  *ArmedFault
}

// SetMatch says which requests count; all if m is nil. By default EVAL and EVALSHA do. A
// script that the server does not have costs two, an EVALSHA and an EVAL.
func (p *Proxy) SetMatch(m Match) {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	p.counter.mu.match = m
}

// OnRequest calls hook with each request that counts and its number, before the request's fault
// happens and before it is forwarded. The connection waits for the hook, others do not. Nil
// removes the hook.
func (p *Proxy) OnRequest(hook func(k int, req []string)) {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	p.counter.mu.hook = hook
}

// Arm makes a fault happen to the request that it names. Several may be armed for different
// requests; of two for the same one, the first happens. A fault that can never happen,
// because its kind is unknown or its request has passed, fails the test.
func (p *Proxy) Arm(f Fault) *ArmedFault {
	a, passed := p.counter.arm(f)
	if !slices.Contains(FaultKinds(), f.Kind) || a.fault.At <= passed {
		p.report.failf("redistest: %v at request %d after %d requests can never happen", f.Kind, a.fault.At, passed)
	}
	return a
}

// Requests returns how many requests have counted, the dropped ones included, but not those
// that came after a fault on the same connection and were dropped with it.
func (p *Proxy) Requests() int {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return p.counter.mu.requests
}

// Replies returns how many of these requests the server has replied to.
func (p *Proxy) Replies() int {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return p.counter.mu.replies
}

// ResetCount starts the count of requests and replies again. Faults stay armed for the number they were armed for.
func (p *Proxy) ResetCount() {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	p.counter.mu.requests, p.counter.mu.replies = 0, 0
}

// arm returns the fault as armed, and how many requests have counted.
func (c *requestCounter) arm(f Fault) (a *ArmedFault, passed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.At == 0 {
		f.At = c.mu.requests + 1
	}
	a = &ArmedFault{fault: f, done: make(chan struct{})}
	c.mu.armed = append(c.mu.armed, a)
	return a, c.mu.requests
}

// request counts a request and returns its fault, after the hook has returned.
func (c *requestCounter) request(req []string) countedRequest {
	match, hook := c.callbacks()
	if match != nil && !match(req) {
		return countedRequest{}
	}
	next := c.next()
	if hook != nil {
		hook(next.number, req)
	}
	return next
}

// callbacks are called without the lock, so that they may use the proxy.
func (c *requestCounter) callbacks() (Match, func(k int, req []string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.match, c.mu.hook
}

// next counts one request and takes its fault.
func (c *requestCounter) next() countedRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.requests++
	next := countedRequest{number: c.mu.requests}
	at := slices.IndexFunc(c.mu.armed, func(a *ArmedFault) bool { return a.fault.At == next.number })
	if at >= 0 {
		next.fault = c.mu.armed[at]
		c.mu.armed = slices.Delete(c.mu.armed, at, at+1)
	}
	return next
}

// reply counts the reply to a request.
func (c *requestCounter) reply(to countedRequest) {
	if to.number == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.replies++
}
