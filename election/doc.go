// SPDX-License-Identifier: Apache-2.0

// Package election elects a leader among processes: one leads at a time, the others wait in a queue,
// and every process can see who leads.
//
//	e := election.New(session, "scheduler", election.Value("10.0.0.7:8080"))
//	err := e.Run(ctx, func(ctx context.Context, term election.Term) error {
//		return schedule(ctx, term.Token()) // stop when ctx ends
//	})
//
//	for leader, err := range e.Observe(ctx) { // in any process
//		...
//	}
//
// # Guarantees
//
//  1. While leases are honoured, no two terms of a name overlap, in any process.
//  2. A term ends here StepDown before its lease can end on the server, 5 s by default. The first check
//     after a pause reports a loss.
//  3. Run releases the lease when lead has returned, and not before.
//  4. The token of a term is greater than those of all terms before.
//  5. Candidates lead in the order in which the server received them. The next one leads one script and
//     one message after Resign, and at most one lease and about a second after a crash.
//  6. Only the holder of a term can write its value, and a new term does not inherit the old value.
//  7. Observers learn of every change that lasts for about a second, also if messages are lost, and
//     they are told that no process leads.
//  8. A Campaign that returned an error leaves nothing on the server once that replies, at the latest
//     3 s after it was sent.
//  9. A term has no goroutine, timer or connection of its own.
//
// # Not promised
//
//   - That the work stops in time. A leader that works for longer than StepDown after it lost the server
//     works beside the next one: pass Term.Token to what it writes to.
//   - That observers see each term: one that is over before a poll is left out.
//   - The queue, the term and the value, if the server loses its data.
//   - A bound on the work: if lead hangs while the server is there, no other process leads. Health
//     reports it once the term was lost.
//
// # Time
//
// The lease is 15 s from the start, or as signalbox.RenewedLease and signalbox.WithFirstLease say, and
// counts from before each request was sent.
// No clocks of processes are compared.
//
// # Cost
//
//	Campaign          1 round trip, and a message if it waits; 1 write in the background
//	leading           3 renewals and 1 write of the value in each lease
//	waiting           1 poll a second
//	Resign            2 round trips; the next candidate leads after the first
//	SetValue          1 round trip, and a message
//	Leader, Health    1 round trip
//	observing         for each session 1 subscription, 1 poll a second, and 1 for each message
//
// The key of the value ends three leases after the last write.
//
// An election is the fair lock of its name: fair.New(session, name) excludes its leaders, its Waiters
// are the candidates, and its ForceUnlock ends a term at once.
//
// docs/election.md compares it with etcd, Kubernetes and Curator, and has the failures;
// docs/internals/election.md has the protocol of the value.
package election
