// SPDX-License-Identifier: Apache-2.0

// Package queue implements the queue of a lock at the server: tickets, heartbeats of the waiting sessions, and grants
// that the script makes which releases the lock.
//
// # What it is
//
// A queue is a sorted set of tickets, one for each attempt to acquire the lock, scored by the server's time
// when it arrived. The script that ends a hold grants the lock to the first ticket whose session is alive, and
// publishes that: one script and one message lie between a release and the next holder. The steps are scripts
// (Protocol); docs/engine.md says how they run, and the reason for each rule.
//
// Queues has the queues of one kind of lock in one session. A Queue has the attempts of the session for one lock.
// An Attempt is one hold id: the request, the ticket, and the hold.
//
// # Guarantees
//
//  1. Order: locks are granted in the order in which the server accepted the tickets, over all
//     processes. A session keeps its tickets while each heartbeat arrives within the life of the one before.
//     TryLock overtakes no waiter that is alive.
//  2. A grant is paid for by a heartbeat that it names. The hold lasts at least for that heartbeat's
//     life from its execution, and the waiter counts from its sending. The only other source of a
//     waiter's deadline is the reply to its own call, counted from the sending of that call.
//  3. An attempt has an id that is used once. A call that is sent twice, or executed late, finds its
//     own attempt or nothing.
//  4. A waiter that leaves in the instant in which it is granted has the lock, or hands it over.
//  5. A waiter whose message was lost finds out by a poll, about a second later. A poll also grants
//     a lock that was never released because its holder died.
//  6. A session sends one heartbeat for all its waiters of a queue. It goes with the poll, and is not
//     sent separately while polls have replies. While the session is not subscribed, no waiter waits longer
//     than a tenth of a second for a poll.
//  7. While nothing changes at exclusive locks, heartbeats replace polls, for up to a hundred locks in
//     one call.
//
// # Not guaranteed
//
// The order of sessions without a heartbeat for a life, which is three polls: they are skipped. Their tickets
// stay for ten more seconds, and move to the end of the queue after that. A session whose listener is gone is
// skipped too, and so is a session that waits for a turn and sent no heartbeat for 1.2 s.
//
// A prompt end of what a copy of this process left behind, restored from a snapshot. The copy counts as
// alive as long as the original does, and each of its tickets may cost a life.
//
// # States of an attempt
//
// The doc of attemptState lists all steps. An attempt that waits takes these:
//
//	entering --reply: it waits--> queued --poll: no ticket--> ticketLost: given up, and a new attempt begins
//	   |                            |
//	   | reply: it has the lock     | message, poll, reply to a release of this session
//	   v                            v
//	granted <-----------------------+
//	   | Granted                 | the context ended in the same instant: Granted all the same
//	   v                         |
//	begun --Release, Abandon--> over <--the context ended, Close, a refusal-- entering, queued
//
// Close withdraws all queued attempts in one batch before it ends holds, so that no hold is granted to a session
// that ends.
//
// What the server may have of an attempt is its session.Footprint. The leave of an attempt that is over is repeated until
// the server replies. It is sent once more if a copy of the enter may still be on its way (its not-after), or if a grant
// arrives. Then the attempt is forgotten.
// If there is no reply, the repetition continues while the queue has users here, because their heartbeats
// would keep the ticket alive.
//
// # Time
//
// A heartbeat's life is three pauses between polls: 3 s, or more if the session waits in more than a thousand
// queues. A granted hold has the rest of that life, at least a second, and is renewed after a third of it.
//
// # Locking
//
// One lock guards all queues of a session. The work under it is short and makes no call to the server. It is
// acquired before the locks of the timers, the undoer, the batches and the dispatcher. The dispatcher calls back
// with none of its locks held. A listener is called back at once, so it is opened and closed with none of our locks
// held.
package queue
