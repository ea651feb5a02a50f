// SPDX-License-Identifier: Apache-2.0

// Package countdown is a count-down latch across processes: waiters block until n different pieces
// of work were counted down, by any processes.
//
// Use it if processes wait for pieces of work that others do. To bound how many run at once use
// package semaphore.
//
// A starter begins a round of n. It hands the round's ID to the workers together with their work:
//
//	round, err := countdown.New(session, "import/42").Start(ctx, len(files))
//	...                                    // each worker gets round.ID() and a file
//	err = round.Wait(ctx)
//
//	round := countdown.New(session, "import/42").RoundOf(roundID) // in the worker
//	left, err := round.CountDown(ctx, file)
//
// # Guarantees
//
//  1. Never early: a round opens, and Wait returns nil, when n different ids (here, files) were counted
//     in it, and not before. The round is complete then. An id counts once, however often it is sent,
//     so a killed worker can repeat its ids.
//  2. A round that is complete or was reset never changes again. A late CountDown counts in no other
//     round: it returns 0 until the next round starts, then ErrRoundOver; after a Reset, ErrReset.
//  3. No leak: a Start that returned an error leaves no round of its own. If the server began one,
//     the session resets it in the background, as soon as the server replies again. A Start that
//     arrives more than 3 s after it was sent does nothing.
//  4. A lost message costs about a second: then the waiter's next poll finds the end of the round.
//  5. For each latch, the waiters of one session share one subscription and one poll a second. A
//     waiter has no goroutine or timer of its own.
//
// # Not promised
//
//   - That the right ids come: any n different ids complete a round.
//   - Counts that the server lost in a failover. The round then stays incomplete; send all ids again.
//     If the start was lost, calls return ErrRoundLost, until more than 32 other rounds have followed:
//     then the round counts as open.
//   - How a round ended that more than 32 others have followed: if it was reset, calls for it, and
//     for all rounds before it, return ErrRoundLost.
//   - Secrecy of ids: signalbox.WithHashedNames does not hide them.
//
// # Time
//
// A round is kept for about 24 hours, or as long as Keep says, after the last request for it, such as
// a waiter's poll. While it is kept, a later round gets a greater ID, even if the server's clock is set
// back. No clock of a client matters.
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
// # Layouts of others
//
// In a layout of other clients (signalbox.WithLayout) it shares their key, which may have neither ids nor
// rounds. The package of the layout says what that means for calls.
package countdown
