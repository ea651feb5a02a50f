// SPDX-License-Identifier: Apache-2.0

// Package election elects a leader among processes: one leads at a time, for a term, the other
// candidates wait in a queue, and every process can see the leader.
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
//  2. A term ends in its process a third of its lease before its hold can expire on the server (5 s of
//     15 s; StepDown sets another time; package signalbox has two exceptions). If it ends while the
//     process is paused, the first Term.Err after that returns ErrLost.
//  3. Run releases the lease only after its function has returned.
//  4. Fencing: a term has a greater token than every earlier term (but see package signalbox).
//  5. Order: candidates lead in the order in which the server received their calls. After Resign the
//     next one leads after one request and one message; after a crash, within one lease and about a
//     second.
//  6. Only the holder of a term can write its value, and a new term does not inherit the old value.
//  7. Observers see every leader and value that lasts for about a second, even if messages are lost.
//     They also see that no process leads.
//  8. No leak: a Campaign that returned an error has no term and no ticket in the server's queue, once
//     the server replies again. A request that arrives more than 3 s after it was sent makes none.
//  9. A term has no goroutine, timer or connection of its own.
//
// # Not promised
//
//   - That the work stops in time: a leader that needs longer than StepDown may work beside the
//     next one. Pass Term.Token to what it writes to.
//   - That observers see shorter terms.
//   - A queue, term or value that the server lost.
//   - Another leader while the function hangs.
//
// # Time
//
// The lease is 15 s (signalbox.WithRenewedLease), whole from the start unless signalbox.WithFirstLease
// sets less. A candidate that had to wait begins with at most 3 s, and until its first renewal, which is sent
// at once, its term ends a third of these before its hold. No clocks of processes are compared.
//
// # Cost
//
//	Campaign          1 round trip, a message if it waits; 1 or 2 writes later
//	leading           3 renewals and 1 write of the value a lease
//	waiting           1 poll a second
//	Resign            2 round trips; the next leads after the first
//	SetValue          1 round trip, a message
//	Leader, Health    1 round trip
//	observing         1 subscription, 1 poll a second and 1 a message
//
// The lock is fair.New(session, name): Waiters lists the candidates, and ForceUnlock ends a term at once.
//
// docs/election.md has the failures and comparisons.
package election
