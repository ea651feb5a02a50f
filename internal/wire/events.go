// SPDX-License-Identifier: Apache-2.0

package wire

import (
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

// happened records an event.
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
