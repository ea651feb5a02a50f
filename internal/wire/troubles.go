// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"sync/atomic"
)

// TroubleKind is what a Connector cannot do while its connections still work, so that no call fails.
type TroubleKind int

const (
	// TroubleReplacement means that connections are not replaced, so the client stays with a server if its address leads to another one.
	TroubleReplacement TroubleKind = iota
	// TroubleCredentials means that the program's function for credentials fails, for newer ones of an open connection or for its replacement.
	TroubleCredentials
	// TroubleFiles means that files for TLS cannot be used as they are, and connections are made with what they said before.
	TroubleFiles
	troubleKinds
)

// Trouble is one kind of trouble at one address. It begins when a Connector reports it, and ends when none does any more.
type Trouble struct {
	Kind    TroubleKind
	Address string
}

// troubleChanges counts the troubles that began or ended, in the whole process.
//
//nolint:gochecknoglobals // see Troubles
var troubleChanges atomic.Uint64

// TroubleChanges returns a number that changes whenever a trouble begins or ends.
func TroubleChanges() uint64 { return troubleChanges.Load() }

// Troubles returns the troubles of the Connectors in the whole process that have an open connection to one of the nodes, and their
// reasons: a client does not say by which Connector it connects. known is false if there is no such connection.
func Troubles[V any](nodes map[string]V) (found map[Trouble]error, known bool) {
	connectors := make(map[*Connector]struct{})
	openConns.Lock()
	for c := range openConns.conns {
		if _, is := nodes[c.endpoint.addr]; is {
			connectors[c.endpoint.connector] = struct{}{}
		}
	}
	openConns.Unlock()
	found = make(map[Trouble]error)
	for c := range connectors {
		c.mu.Lock()
		for addr, e := range c.mu.endpoints {
			for kind, err := range e.troubles {
				if err != nil {
					found[Trouble{TroubleKind(kind), addr}] = err
				}
			}
		}
		c.mu.Unlock()
	}
	return found, len(connectors) > 0
}

// report records the reason for a trouble, or nil for none.
func (e *endpoint) report(kind TroubleKind, reason error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	e.reportLocked(kind, reason)
}

func (e *endpoint) reportLocked(kind TroubleKind, reason error) {
	changes := (e.troubles[kind] == nil) != (reason == nil)
	e.troubles[kind] = reason
	if changes {
		troubleChanges.Add(1)
	}
}

// unreplacedTimes is how many attempts in a row to replace a connection have to fail to be a trouble.
const unreplacedTimes = 2

// replaced records the outcome of an attempt to replace a connection.
func (e *endpoint) replaced(err error) {
	e.connector.mu.Lock()
	defer e.connector.mu.Unlock()
	var failed *credentialsError
	if errors.As(err, &failed) {
		e.reportLocked(TroubleCredentials, failed)
		return
	}
	e.reportLocked(TroubleCredentials, nil)
	if err == nil {
		e.unreplaced = 0
		e.reportLocked(TroubleReplacement, nil)
		return
	}
	if e.unreplaced++; e.unreplaced >= unreplacedTimes {
		e.reportLocked(TroubleReplacement, err)
	}
}
