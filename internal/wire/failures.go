// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"sync/atomic"
)

// FailureKind is what a Connector cannot do while its connections still work, so that no call fails.
type FailureKind int

const (
	// FailureReplacement means that connections are not replaced, so the client stays with a server if its address leads to another one.
	FailureReplacement FailureKind = iota
	// FailureCredentials means that the program's function for credentials fails, for newer ones of an open connection or for its replacement.
	FailureCredentials
	// FailureFiles means that files for TLS cannot be used as they are, and connections are made with what they said before.
	FailureFiles
	failureKinds
)

// Failure is one kind of failure at one address. It begins when a Connector reports it, and ends when none does any more.
type Failure struct {
	Kind    FailureKind
	Address string
}

// failureChanges counts the failures that began or ended, in the whole process.
//
//nolint:gochecknoglobals // see Failures
var failureChanges atomic.Uint64

// FailureChanges returns a number that changes whenever a failure begins or ends.
func FailureChanges() uint64 { return failureChanges.Load() }

// Failures returns the failures of the Connectors in the whole process that have an open connection to one of the nodes, and their
// reasons: a client does not say by which Connector it connects. known is false if there is no such connection.
func Failures[V any](nodes map[string]V) (found map[Failure]error, known bool) {
	connectors := make(map[*Connector]struct{})
	openConns.Lock()
	for c := range openConns.conns {
		if _, is := nodes[c.endpoint.addr]; is {
			connectors[c.endpoint.connector] = struct{}{}
		}
	}
	openConns.Unlock()
	found = make(map[Failure]error)
	for c := range connectors {
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
		failureChanges.Add(1)
	}
}

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
	e.recordFailureLocked(err)
	if e.unreplaced[c]++; e.unreplaced[c] >= unreplacedTimes {
		e.reportLocked(FailureReplacement, err)
	}
}
