// SPDX-License-Identifier: Apache-2.0

// Package election elects a leader among processes: one leads at a time, the others wait in a queue,
// and every process can see the leader.
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
//  1. No two terms of a name overlap, in any process, while each leader stops when its term ends
//     and the server keeps its lease until then.
//  2. A term ends in its process 5 s before its lease can end on the server, or as StepDown says.
//     The first check after a pause reports a loss. A term whose candidate waited begins with at most
//     3 s, less a third of it, until the server replies to its first renewal, which is sent at once.
//  3. Run releases the lease when lead has returned, and not before.
//  4. The token of a term is greater than those of all terms before.
//  5. Candidates lead in the order in which the server received them. After Resign the next one
//     leads after one script and one message, and after a crash within one lease and about a
//     second.
//  6. Only the holder of a term can write its value, and a new term does not inherit the old value.
//  7. Observers learn of every change that lasts for about a second, also if messages are lost. They
//     also learn that no process leads.
//  8. A Campaign that returned an error leaves nothing: its ticket or term is removed once the
//     server replies. A request that arrives more than 3 s after it was sent
//     does nothing.
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
// The lease is 15 s from the start, or as signalbox.WithRenewedLease and signalbox.WithFirstLease say, and
// counts from before each request was sent.
// No clocks of processes are compared.
//
// # Cost
//
//	Campaign          1 round trip, and a message if it waits; 1 or 2 writes in the background
//	leading           3 renewals and 1 write of the value in each lease
//	waiting           1 poll a second
//	Resign            2 round trips; the next candidate leads after the first
//	SetValue          1 round trip, and a message
//	Leader, Health    1 round trip
//	observing         1 subscription for each session, 1 poll a second and for each message
//
// An election is the fair lock of its name: fair.New(session, name) excludes its leaders, its Waiters
// are the candidates, and its ForceUnlock ends a term at once.
//
// docs/election.md compares it with etcd, Kubernetes and Curator, and has the failures.
package election
