// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// ConnEvent is what happens to the connections of a client and concerns its session.
type ConnEvent int

const (
	// ConnEnded means that a connection for calls ended without its client closing it: by its age, by a refusal, or by the server. So
	// the next call uses another one, which may lead to another server.
	ConnEnded ConnEvent = iota
	// NewVersion means that an address leads to a server of another version than before. What a session has learnt of its server by
	// then may be over.
	NewVersion
	// FailureChange means that a failure began or ended; see Failures.
	FailureChange
	connEvents
)

// eventCounts counts events by their kind, in the whole process. A Connector has the count at its own last event, which no
// other event has.
//
//nolint:gochecknoglobals // a client that is tuned by hand does not say by which Connector it connects
var eventCounts [connEvents]atomic.Uint64

func (c *Connector) happened(what ConnEvent) { c.lastEvents[what].Store(eventCounts[what].Add(1)) }

// EventCount returns how often something has happened in the whole process. It costs less than LastEvent.
func EventCount(what ConnEvent) uint64 { return eventCounts[what].Load() }

// LastEvent returns a number that is another one after something has happened to the connections of the client. While it
// is not known by which Connector that connects, any event may be its own.
func LastEvent(what ConnEvent, client rueidis.Client) (last uint64) {
	connectors := connectorsOf(client)
	if len(connectors) == 0 {
		return EventCount(what)
	}
	for _, c := range connectors {
		last = max(last, c.lastEvents[what].Load())
	}
	return last
}

// acceptedSince reports whether a server has accepted a connection of the client since a time on the monotonic clock.
func acceptedSince(client rueidis.Client, since time.Duration) bool {
	for _, c := range connectorsOf(client) {
		if at := c.acceptedAt.Load(); at != nil && *at >= since {
			return true
		}
	}
	return false
}

// connectedClient is a client whose Connector is known.
type connectedClient struct {
	rueidis.Client

	connector *Connector
}

// ClientOf returns the client with its Connector.
func (c *Connector) ClientOf(client rueidis.Client) rueidis.Client {
	return connectedClient{client, c}
}

// connectorsOf returns the Connector of a client, and the one below it. If it is not known, these are all in the whole process that
// have an open connection to one of the client's nodes.
func connectorsOf(client rueidis.Client) (found []*Connector) {
	if own, is := client.(connectedClient); is {
		if below := own.connector.below.Load(); below != nil {
			found = append(found, below)
		}
		return append(found, own.connector)
	}
	nodes, known := client.Nodes(), make(map[*Connector]struct{})
	openConns.Lock()
	defer openConns.Unlock()
	for c := range openConns.conns {
		connector := c.endpoint.connector
		if _, at := nodes[c.endpoint.addr]; !at {
			continue
		}
		if _, is := known[connector]; !is {
			known[connector] = struct{}{}
			found = append(found, connector)
		}
	}
	return found
}

// FailureKind is what a Connector cannot do while its connections still work, so that no call fails.
type FailureKind int

const (
	// FailureReplacement means that connections are not replaced, so the client stays with a server if its address leads to another one.
	FailureReplacement FailureKind = iota
	// FailureCredentials means that the program's function for credentials fails, for newer ones of an open connection or for its replacement.
	FailureCredentials
	// FailureFiles means that files for TLS cannot be used as they are, and connections are made with what they said before.
	FailureFiles
	// FailureSentinel means that a sentinel refuses the client. The primary may be known from others, or from before.
	FailureSentinel
	// FailurePrimary means that the primary that sentinels name refuses the client, which stays with the one before.
	FailurePrimary
	// FailureLogin means that the server refuses newer credentials of an open connection, which works with those that it has.
	FailureLogin
	// FailureEvent means that the last event of a sentinel was none. The client has left it, and asked the sentinels for the primary.
	FailureEvent
	failureKinds
)

// Failure is one kind of failure at one address. It begins when a Connector reports it, and ends when none does any more.
type Failure struct {
	Kind    FailureKind
	Address string
}

// Failures returns the failures of the client's connections, and their reasons. known is false if it cannot be known: a client that is
// tuned by hand has no open connection, or the client is not tuned.
func Failures(client rueidis.Client) (found map[Failure]error, known bool) {
	connectors := connectorsOf(client)
	found = make(map[Failure]error)
	for _, c := range connectors {
		c.mu.Lock()
		for addr, e := range c.mu.endpoints {
			for kind, err := range e.lasting {
				if err != nil {
					found[Failure{FailureKind(kind), addr}] = err
				}
			}
		}
		c.mu.Unlock()
	}
	return found, len(connectors) > 0
}

// report records the reason for a failure, or nil for none.
func (e *endpoint) report(kind FailureKind, reason error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	e.reportLocked(kind, reason)
}

func (e *endpoint) reportLocked(kind FailureKind, reason error) {
	changes := (e.lasting[kind] == nil) != (reason == nil)
	e.lasting[kind] = reason
	if changes {
		e.connector.happened(FailureChange)
	}
}

// eventsAreWhole ends each FailureEvent: the client listens to one sentinel, which need not be the one that it has left.
func (c *Connector) eventsAreWhole() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.mu.endpoints {
		e.reportLocked(FailureEvent, nil)
	}
}

// errLateReply is the reason why a connection is not replaced by one that was made: there is no moment without a request under way.
var errLateReply = fmt.Errorf("replies are due for more than %v, and the connection is replaced when none is", drainTimeout)

// unreplacedTimes is how many attempts in a row to replace a connection have to fail to be a failure.
const unreplacedTimes = 2

// replaced records the outcome of an attempt to replace a connection. It counts as an attempt to connect.
func (e *endpoint) replaced(c *conn, err error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	if _, open := e.conns[c]; !open {
		return
	}
	var failed *credentialsError
	if errors.As(err, &failed) {
		e.recordFailureLocked(err)
		e.reportLocked(FailureCredentials, failed)
		return
	}
	e.reportLocked(FailureCredentials, nil)
	if err == nil {
		delete(e.unreplaced, c)
		e.recordAcceptedLocked()
		return
	}
	if !errors.Is(err, errLateReply) { // nothing is wrong with connecting
		e.recordFailureLocked(err)
	}
	var refusal *refusedError
	if c.sentinel && errors.As(err, &refusal) {
		e.reportLocked(FailureSentinel, err)
	} else if e.unreplaced[c]++; e.unreplaced[c] >= unreplacedTimes {
		e.reportLocked(FailureReplacement, err)
	}
}
