// SPDX-License-Identifier: Apache-2.0

// Package session is the state that all locks of one client share: its identity, the runner of scripts, the
// server's clock, the timers, the keeper of leases, the dispatcher of messages, the registry of each kind of
// lock, and the undoing of calls with unknown outcomes.
//
// signalbox.Session is defined over Handle here. So primitives reach the machinery although nothing of it is
// exported: only packages of this module can write the conversion (*session.Handle)(s).Session().
//
// The package also checks all options in one place, and describes locks to callers that acquire several at
// once: their positions in the order of all locks, and which of them one script can acquire together.
//
// # Guarantees
//
//  1. The places of one session have a total order, the same in every process and whether or not there is a cluster:
//     by slot, then by key.
//  2. Two places of one session with the same kind and key are the same lock.
//
// # Goroutines
//
// A session that holds nothing, waits for nothing and undoes nothing has no goroutine. Otherwise there are
// the driver of the timers, and the dispatcher's owner of the subscription connection; in a cluster, one for
// each node that has a lock with waiters. Batches (renewals, polls, undos) have one each while they are
// under way.
package session
