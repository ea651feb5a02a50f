// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"slices"
	"strings"
	"sync"
)

// logSize is how many requests Log keeps at least. A test that fails is explained by
// the last few dozen.
const logSize = 1000

// requestCounter counts the requests of a proxy and hands out the faults armed for them.
type requestCounter struct {
	mu struct {
		sync.Mutex
		match    Match
		hook     func(k int, req []string)
		armed    []*ArmedFault
		requests int
		replies  int
		log      []string
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

// ResetCount starts the count of requests and replies again, and empties the log. Faults
// stay armed for the number they were armed for.
func (p *Proxy) ResetCount() {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	p.counter.mu.requests, p.counter.mu.replies, p.counter.mu.log = 0, 0, nil
}

// Log returns the commands of the last requests, in upper case, also of those that do not
// count. The order between connections is that of arrival.
func (p *Proxy) Log() []string {
	p.counter.mu.Lock()
	defer p.counter.mu.Unlock()
	return slices.Clone(p.counter.mu.log)
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
	if len(req) > 0 {
		c.note(strings.ToUpper(req[0]))
	}
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

// note adds an entry to the log.
func (c *requestCounter) note(entry string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.mu.log) == 2*logSize {
		c.mu.log = append([]string(nil), c.mu.log[logSize:]...)
	}
	c.mu.log = append(c.mu.log, entry)
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
