// SPDX-License-Identifier: Apache-2.0

// Package multilock acquires several locks as one, of any kind and of any session: all of them or none.
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
//  1. All or none: a lease is live while all members are held. If one is lost or reaches its WithMaxHold,
//     the lease ends with that error, and the other members are released.
//  2. The holder knows: the deadline of the lease is the earliest of its members'.
//  3. No deadlock: multilocks never deadlock, in one process or in several, if the members of each
//     belong to one session, in whatever order they are named. Nor do callers that acquire one of
//     these locks alone.
//  4. No leak: a Lock or TryLock that returned an error leaves nothing held: what it acquired is
//     released as soon as the servers reply.
//  5. Members are renewed while others are waited for. If one is lost meanwhile, all are acquired anew.
//  6. Fencing: each member has its own token. Token of the lease is the greatest of them. It is
//     greater than that of every earlier multilock that had no members but these.
//
// # Not promised
//
//   - One instant: members are acquired one after the other, and the first ones are held while the
//     next one is waited for.
//   - Order between members of different servers. A waiter that meets another one in the opposite
//     order releases everything after 10 ms to 1.3 s and begins again, so a fair member loses its
//     ticket.
//   - Freedom from deadlock for locks that are taken one by one, outside this package, before several
//     that come earlier in the order.
//   - Progress beside a RedissonMultiLock in Java that names the same locks in another order. Name them
//     there as Lock.Order returns them.
//   - What a member's own package does not promise.
//
// # Time
//
// Each member has the lease and the clocks of its own package.
//
// # Cost
//
//	reentrant members of one slot, side by side   1 round trip to acquire, 1 to release, 64 at a time
//	every other member                            as its package says, one after the other
//	a member that is held by another process      1 round trip more
//	entering again                                0
//
// A multilock has no keys of its own. docs/internals/multilock.md has the states and the failures.
package multilock
