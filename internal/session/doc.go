// SPDX-License-Identifier: Apache-2.0

// Package session is what the locks of one client share: its identity, the runner of
// scripts, the server's clock, the timers, the keeper of leases, the dispatcher of messages,
// the parts of each kind of lock, and the settling of what has no known outcome.
//
// signalbox.Session is defined over Session here, which is how primitives reach the machinery
// with nothing exported for it: (*session.Session)(s) is a conversion that only packages of
// this module can write.
//
// It also holds what options set, checked in one place, and what a lock tells those who take several at once: where it
// stands in the order of all locks, and which of them go together, in one script.
//
// # Guarantees
//
//  1. The places of one session have a total order, the same in every process and whether or not there is a cluster:
//     by slot, then by key.
//  2. Two places of one session with the same kind and key are the same lock.
//
// # Goroutines
//
// None while nothing is held, waited for or settled. While something is: the driver of the
// timers, and the dispatcher's owner of the subscription connection, in a cluster one for each node
// that has a lock waited for. Batches (renewals,
// looks, settlements) have one each while they are under way.
package session
