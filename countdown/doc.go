// SPDX-License-Identifier: Apache-2.0

// Package countdown is a count-down latch across processes: waiters block until n different pieces of
// work were counted down, in whatever process they were done.
//
// A starter begins a round of n. It hands the round's ID to the workers together with their work:
//
//	round, err := countdown.New(session, "import/42").Start(ctx, len(files))
//	...                                    // each worker gets round.ID() and a file
//	err = round.Wait(ctx)
//
//	round := countdown.New(session, "import/42").RoundOf(id) // in the worker
//	left, err := round.CountDown(ctx, file)
//
// # Guarantees
//
//  1. A round opens when n different ids were counted, and never before. An id counts once, however
//     often it is sent, so a worker that was killed can repeat its ids.
//  2. A round that has opened or was reset never changes again. A late worker gets ErrRoundOver or
//     ErrReset, and counts in no other round.
//  3. A Start that returned an error leaves no round behind: it is reset once the server replies. A
//     delayed request is undone within 3 s of being sent.
//  4. A lost message costs about a second: one message wakes all waiters of a process, and if it is
//     lost, their next poll finds out.
//  5. Waiters of one session share a subscription and a poll each second for each latch. A waiter has
//     no goroutine and no timer of its own.
//
// # Not promised
//
//   - That the right ids come: any n different ids open a round.
//   - Counts that the server lost in a failover. The round then stays closed; send all ids again.
//     If the start was lost, calls return ErrRoundLost.
//   - How a round ended that lies more than 32 rounds back, if one of those was reset: ErrRoundLost.
//   - Secrecy of ids: signalbox.WithHashedNames does not hide them.
//
// # Time
//
// A round is kept for 24 hours after its last use, or as long as Keep says. IDs of rounds are made
// from the server's clock and always rise. No clock of a client matters.
//
// # Cost
//
//	Start, CountDown, Count, Round   1 round trip
//	Reset                            2 round trips
//	Wait                             2 round trips and a subscription for the first waiter of a
//	                                 session, none for the others; then 1 poll a second
//
// The server keeps about (420 + len(prefix) + len(name)) bytes for each latch until Keep is over.
//
// # Redisson
//
// In the layout signalbox.Redisson a latch is Java's RCountDownLatch, which knows neither ids nor rounds: each
// CountDown counts. A call without a reply is not repeated and returns ErrUnconfirmed, and all rounds
// have the ID 1. A Wait whose round ends and whose latch is started again in the same moment may wait
// for the next round.
//
// docs/internals/countdown.md has the states, the failures, the key, and what differs with Redisson.
package countdown
