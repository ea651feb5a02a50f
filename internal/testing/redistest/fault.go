// SPDX-License-Identifier: Apache-2.0

package redistest

import (
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
	// CutBeforeRequest closes the connection instead of forwarding the request. Replies to
	// earlier requests of the connection that are still on their way are lost as well.
	CutBeforeRequest FaultKind = iota + 1
	// CutAfterRequest forwards the request, waits for the reply, so that the request has been
	// executed, and closes the connection instead of delivering it. Earlier replies are
	// delivered, later requests of the connection are not forwarded.
	CutAfterRequest
	// CutAfterReply delivers the reply and then closes the connection. Later requests of the
	// connection are not forwarded.
	CutAfterReply
	// DelayRequest forwards the request after Fault.Delay, also if the client has
	// closed its connection by then.
	DelayRequest
	// DelayReply delivers the reply after Fault.Delay, counted from its arrival.
	DelayReply
	// SwallowRequest drops the request and all later ones. The connection stays open, earlier
	// replies and pushes still arrive.
	SwallowRequest
	// SwallowReply drops the reply and everything later that the server sends. The
	// connection stays open, and requests are still forwarded and executed.
	SwallowReply
	// HalfOpen drops the request and from then on everything in both directions, what is under
	// way included. The connection stays open at both ends, also if one of them closes it.
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
