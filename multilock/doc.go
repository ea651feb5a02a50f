// SPDX-License-Identifier: Apache-2.0

// Package multilock acquires several locks as one: all of them or none. They may be of different
// kinds and sessions.
//
// Use it if one piece of work needs several names at once. Locks that are acquired one after the
// other can wait for each other.
//
//	both := multilock.New(reentrant.New(session, "account/1"), reentrant.New(session, "account/2"))
//	lease, err := both.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// The order of the members does not matter. A member is a *reentrant.Lock, a *fair.Lock, a
// *rwlock.Lock (for writing), the result of its method Reader, or that of a semaphore's method
// Permits. Tokens returns the fencing token of each member.
//
// # Guarantees
//
//  1. All or none: a lease lasts while all members are held. If one of them ends early, because it
//     is lost or reaches its WithMaxHold, the lease ends with the error of that member, and the
//     other members are released.
//  2. The holder knows: the deadline of the lease is the earliest of its members'.
//  3. No deadlock: multilocks never deadlock, in one process or in several, as long as none of them
//     has members of two sessions. The order in which they are named does not matter. Callers that
//     acquire only one of these locks, by itself, never deadlock with them either.
//  4. No leak: a call that returned an error holds nothing. If a server granted a member
//     nevertheless, its session releases it in the background, as soon as that server replies
//     again.
//  5. Members are renewed while others are waited for. If one is lost meanwhile, all are acquired
//     anew.
//  6. Fencing: each member has its own token. Token of the lease is the greatest of them. It is
//     greater than the Token of an earlier lease if this lease has all members of that one (but see
//     package signalbox). The exception is members that several can hold at once: readers and permits.
//
// # Not promised
//
//   - One instant: members are acquired one after the other, and the first ones are held while the
//     next one is waited for.
//   - A common order if members belong to different sessions: two calls may each hold what the
//     other waits for. Then each of them releases all its members after 10 ms to 1.3 s, at random,
//     and begins again. So a fair member loses its ticket.
//   - Freedom from deadlock for a caller that holds a lock already when it calls Lock: acquire all
//     locks in one multilock.
//   - Progress beside another client that acquires the same locks together in another order, in a layout of
//     others. Name them there as Lock.Order returns them.
//   - What a member's own package does not promise.
//
// # Time
//
// Each member is renewed, and ends, as its own package says.
//
// # Cost
//
//	reentrant members of one slot, side by side   1 round trip to acquire, 1 to release, 64 at a time
//	every other member                            as its package says, one after the other
//	a member that is held by another process      1 round trip more
//	entering again                                0
//
// A multilock has no keys of its own. docs/internals/failures.md has the failures.
package multilock
