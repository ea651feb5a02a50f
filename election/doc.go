// SPDX-License-Identifier: Apache-2.0

// Package election elects a leader among processes: one leads at a time, for a term, the other
// candidates wait in a queue, and every process can see the leader.
//
// Use it if one process leads for as long as it lives. For work that ends use package reentrant,
// for many pieces package shards.
//
//	e := election.New(session, "scheduler", election.Value("10.0.0.7:8080"))
//	err := e.Run(ctx, func(ctx context.Context, term election.Term) error {
//		return schedule(ctx, term.Token()) // stop when ctx ends
//	})
//
//	for leader, err := range e.Observe(ctx) {
//		...
//	}
//
// # Guarantees
//
//  1. Exclusion: at most one process leads at a time. For this, each leader must stop when its term
//     ends, and the server must keep its hold (the leader's entry) for the whole lease.
//  2. A term ends in its process a third of its lease before its hold can expire on the server: 5 s of
//     15 s (StepDown sets another time). If it ends while the process is paused, the first Term.Err
//     after that returns ErrLost. Package signalbox, guarantee 1, has two exceptions.
//  3. Run releases the lease only after its function has returned, also if the term ended earlier, as
//     long as the server can be reached.
//  4. Fencing: a term has a greater token than every earlier term. Package signalbox, guarantee 2, has
//     the exceptions.
//  5. Order: candidates lead in the order in which the server received their calls, unless Handover
//     moves one to the head. After Resign the next one leads after one request and one message; after a
//     crash, within one lease and about a second.
//  6. Only the holder of a term can write its value, and no late request overwrites a later one. A new
//     term does not inherit it.
//  7. Observers see every leader and every value that lasts for more than about a second, even if
//     messages are lost, and a new leader together with its first value. The same is true of times without
//     a leader. The session identifies a leader, not its label.
//  8. No leak: a Campaign that returned an error has no term and no ticket in the server's queue, once
//     the server replies again. A request to acquire that reaches the server more than 3 s after it
//     was sent does nothing.
//  9. A term has no goroutine, timer or connection of its own.
//
// # Not promised
//
//   - That the work stops in time: if the server stays away, a leader that needs longer than StepDown
//     may work beside the next one. Pass Term.Token to what it writes to.
//   - A queue, term or value that the server lost.
//   - Another leader while the function hangs.
//
// # Time
//
// The lease is 15 s (signalbox.WithRenewedLease), whole from the start unless signalbox.WithFirstLease
// sets less. A candidate that had to wait begins with at most 3 s. Its first renewal is sent at once; until
// the reply the term ends a third of those 3 s before its hold.
//
// # Cost
//
//	Campaign          1 round trip, a message if it waits; 1 or 2 writes later
//	leading           3 renewals and 1 write of the value a lease
//	waiting           1 poll a second
//	Resign            2 round trips
//	SetValue          1 round trip, a message
//	Leader, Health    1 round trip
//	Handover          2 round trips and a message a second, 10 more a second while it waits
//	observing         1 subscription, 1 poll a second and 1 a message
//
// The lock is fair.New(session, name): Waiters lists the candidates, and ForceUnlock ends a term.
//
// docs/internals/failures.md has the failures.
package election
