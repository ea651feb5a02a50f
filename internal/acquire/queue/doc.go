// SPDX-License-Identifier: Apache-2.0

// Package queue is waiting in line at the server: tickets, the life of those who wait, and grants that
// are made inside the script that gives the lock back.
//
// # What it is
//
// A line is a sorted set of tickets, one for each attempt to get the lock, scored by the server's time
// at its arrival. The script that ends a hold gives the lock to the first ticket whose session lives, and
// tells it: one script and one message lie between a release and the next holder. The steps are
// scripts (Scripts); docs/line.md explains the protocol, and why each rule of it stands.
//
// # Guarantees
//
//  1. Order: the lock is granted in the order in which the server took in the tickets, over all
//     processes. A session that was heard of within its life keeps its places. TryLock goes before nobody
//     who lives.
//  2. A grant is paid for: it names a heartbeat, the hold lasts for that heartbeat's life from its
//     execution at the least, and the waiter counts from its sending. Nothing else gives a waiter a
//     deadline, but an answer to its own call, which counts from the sending of that call.
//  3. An attempt has an id that is used once. Whatever is sent twice, or executed late, finds its own
//     attempt or nothing.
//  4. A waiter that leaves in the instant in which it is granted has the lock, or passes it on.
//  5. A waiter that is not told, because a message was lost, finds out by a look, about a second later.
//     A look also hands a lock on that nobody released: its holder died.
//  6. One heartbeat is sent for all that a session waits for in one line, and with a look: none of its
//     own while looks are answered. Nobody waits longer than a tenth of a second for a look while
//     grants cannot be heard.
//  7. While nothing changes at exclusive locks, heartbeats replace looks, for up to a hundred locks in one
//     call.
//
// # Not guaranteed
//
// The order of those whose session was not heard of for a life, three looks: they are passed over. They
// have their place for ten seconds more, and stand at the end after that. The queue of an exclusive lock also
// passes over a session whose listener is gone, and one that waits for a turn and was not heard of for 1.2 s.
//
// A prompt end of what a copy of this process left behind, restored from a snapshot: it counts as living as
// long as one of the copies does, and each ticket of it may cost a life.
//
// # States of an attempt
//
//	entering --answered: it waits--> in line --look: no ticket--> gone: given up, and a new attempt begins
//	   |                               |
//	   | answered: it has the lock     | message, look, answer to a release of this session
//	   v                               v
//	granted <--------------------------+
//	   | Begin                   | the context ended in the same instant: Begin all the same
//	   v                         |
//	begun --Release, Abandon--> over <--the context ended, Close, a refusal-- entering, in line
//
// Close withdraws all attempts in line in one batch, before it ends holds, so that no hold goes to a session that ends.
//
// Of one that is over the server is told until it answers, and once more where a copy of the entering
// may still be on its way (its not-after), or a grant arrives. It is forgotten after that; where no answer
// can be had it goes on for as long as its line has users here, whose heartbeats would keep its ticket alive.
//
// # Time
//
// A heartbeat's life is three pauses between looks: 3 s, or more where more than a thousand lines are
// waited in. A hold that was granted has what is left of that, at least a second, and is renewed a third
// into it.
//
// # Locking
//
// One lock for all lines of a session: what happens under it is short, and asks the server for nothing.
// It comes before those of the timers, the settler, the batches and the dispatcher. The dispatcher calls back
// under no lock of its own; listening calls back at once, and so is begun and ended under none of ours.
package queue
