// SPDX-License-Identifier: Apache-2.0

// Package contend is waiting without a line: whoever comes first has the lock. It is for layouts that keep no tickets,
// and gives what package queue gives: a hold cannot tell which of them it is from. What is asked for, and what
// is given, are the words of package queue.
//
// # What it is
//
// A waiter tries (layout.Contest.Acquire), and where the lock is not to be had it waits for a message on the lock's channel, or for
// a look (package dispatch), and tries again. Nobody keeps a place for it: who tries in the right instant has the lock.
// Which goroutine of a session tries, package handoff says: one at a time, unless each has a channel of its own.
//
// # Guarantees
//
//  1. An attempt has a hold of its own, under which it tries as often as it has to: a try that finds what an earlier one
//     took, whose answer was lost, lengthens that, and has the lock.
//  2. No leak: what a try of unknown outcome may have taken is given back in the background when the attempt ends, and
//     once more where a copy may come late, when its not-after is over.
//  3. Every wait is bounded, and misses no release: as package dispatch has it.
//  4. After a release that others were notified of (reply 2), the session does not try for StandBack: otherwise it would
//     be granted the lock again before the message arrives. Try does not wait for that.
//
// # Not guaranteed
//
// Order between processes, and that anybody comes in who waits: a lock that is always taken by others in time is never
// had. What the layout does about that its scripts do.
//
// # States of an attempt
//
//	asking --the reply to a try: it has it--> granted --Release, Abandon--> over
//	  |                                                                     ^
//	  +--- the wait ends -----------------------------------------------------+
//
// Of one that is over the server is told until it answers, if it may have something there. It is forgotten after that.
//
// # Locking
//
// One lock for all of a kind in a session, under which nothing is asked of the server. Those of the timers, the settler and the
// dispatcher come after it.
package contend
