// SPDX-License-Identifier: Apache-2.0

// Package dispatch wakes those who wait for a lock at the server: by unlock messages over one
// subscription connection, and by looks of its own for the messages that do not arrive.
//
// # Guarantees
//
//  1. A wait that was registered before the lock was tried misses no release: it is woken by the
//     message, by the confirmation of its channel's subscription (messages before it are lost),
//     by every renewed one after a break, or by a look.
//  2. Every wait is bounded. A look comes after about a second, or when the holder's key
//     ends if that is sooner; with more than a thousand locks waited for, a look for each of
//     them once in so many milliseconds as there are locks, and after 10 s at the latest.
//  3. Looks are batched: one script for up to 100 locks (one a lock in a cluster). They ask
//     for what wakes a waiter, and leave its mark again where it was lost.
//  4. The reader of the connection never blocks: a wake-up is a send into a channel with room
//     for one; wake-ups coalesce. A slow waiter costs the others nothing.
//  5. A channel is subscribed to once, however many wait on it, and for Linger after the last
//     one left. After that nothing remains: no subscription, no connection, no goroutine.
//
// # Not guaranteed
//
// A wake-up promises nothing: whoever is woken tries, and may find the lock held. Messages
// carry no authority; anybody who may publish can cause a try, and no more. They say which session
// released, in 8 characters of its id, so that one which stands back tells its own apart.
//
// # States of a channel
//
//	Wanted ---SUBSCRIBE confirmed---> Live ---connection lost---> Wanted
//	   |                               |
//	   +------ nobody waits ------> Lingering (still subscribed) --somebody comes--> as before
//	                                   | Linger is over
//	                                   v
//	                                 dropped: UNSUBSCRIBE
//
// # Goroutines
//
// One, while there is a channel: it owns the connection, sends SUBSCRIBE and UNSUBSCRIBE, and
// ends when the last channel is dropped. The client's reader runs the hooks.
//
// # Failure
//
// Where the connection breaks it is made anew, after a pause that grows from 10 ms to 5 s.
// Where the server refuses subscriptions, for lack of a right or for good, waiters live on
// looks, and one line in the log says so.
package dispatch
