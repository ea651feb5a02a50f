// SPDX-License-Identifier: Apache-2.0

// Package reentrant is a lock across processes that its holder can acquire again.
//
// Use it unless another package fits better. If all that you change is in one SQL database, use the
// locks of the database.
//
//	mu := reentrant.New(session, "order/42")
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// TryLock returns signalbox.ErrHeld if the lock is not free.
//
// The context of lease.Enter acquires it again, without the server. Package fair is the same lock
// without turns; on one name the two exclude each other.
//
// # Guarantees
//
//  1. Exclusion: a name has at most one holder at a time, over all processes. For this, each holder
//     must stop when its lease ends, and the server must keep its hold (the holder's entry) until then.
//  2. The holder knows: a lease ends in its process before its hold can expire on the server (package
//     signalbox has two exceptions). A message reports a ForceUnlock at once; the next renewal
//     reports a deleted or changed key.
//  3. Fencing: every lease has a greater token than every earlier holder (but see package signalbox).
//  4. No leak: a call that returned an error leaves neither hold nor ticket (its entry in the server's
//     queue), once the server replies again. A request that arrives more than 3 s after it was sent
//     makes none.
//  5. A lost message costs about a second: then the waiter's next poll finds the grant.
//  6. Order: tickets are served first in, first out, each for one turn (see below). So a ticket is
//     delayed by at most the holder's turn, and one turn for each ticket ahead. TryLock does not overtake
//     a living waiter: one that the server heard from in the last 3 s. docs/guarantees.md has the
//     exceptions.
//
// # Turns
//
// Goroutines of a session that use the same options share one ticket. When it is granted, the session
// hands the lock from one to the next, first in, first out, for one turn. The turn begins no further
// use after 20 ms, 1,024 uses, or ten times the time of a hand-off to another process, whichever is
// first. It ends with the running use, from Lock to Unlock. So it takes at most 20 ms and one use. A
// call with WithFixedLease or WithMaxHold has its own ticket, for one use.
//
// # Not promised
//
//   - A grant to a waiter that is not living: it is skipped, and queues again.
//   - Exclusion after a lease has ended (use tokens), or after a failover that lost the hold
//     (signalbox.WithReplicas).
//
// # Time
//
// As in package signalbox: a new hold ends after 3 s unless its first renewal extends it.
//
// # Cost
//
//	Lock                  1 round trip, 4 commands; a message if it waits
//	Unlock                1 round trip, 3 commands
//	next use in a turn    0
//	acquired again        0
//	used again, kept      0 (signalbox.WithKeepWarm)
//	learns of a waiter    1 message and 1 round trip (signalbox.WithWanted)
//	held for over 0.5 s   1 renewal within a second, then 1 each third of the lease
//	waiting               1 poll a second for each lock and session
//
// # Layouts of others
//
// In a layout of other clients (signalbox.WithLayout) it shares their keys, and processes have no order:
// waiters try again. The package of the layout says what else differs.
//
// docs/internals/failures.md has the failures.
package reentrant
