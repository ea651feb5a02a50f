// SPDX-License-Identifier: Apache-2.0

// Package multilock is several locks as one, of any kind and of any session: all of them, or none.
//
// # Usage
//
// See the examples. New takes the locks, in any order: *reentrant.Lock, *fair.Lock, *rwlock.Lock, which is taken to
// write, what its method Reader answers, and what the method Permits of a *semaphore.Semaphore does. The surface is that of package reentrant. Tokens answers the fencing token of
// each member.
//
// # Guarantees
//
//  1. All or none: a lease is live while all members are held. Where one is lost, or reaches its MaxHold, the lease ends
//     with that error, what is bound to it ends, and the others are given back.
//  2. The holder knows: the deadline is the least of the members', and each look compares the clock for all of them.
//  3. No deadlock among those that take several members of one session by this package, in any order and any process,
//     and those that take one of them alone.
//  4. No leak: a Lock or TryLock that answered an error leaves nothing that it took, once the servers answer.
//  5. Members are kept alive while others are waited for. One that was lost meanwhile, a lease that is not renewed and
//     lapsed, is no part of a success: all are taken anew.
//  6. Fencing: the token of each member is as its package says. Token of the lease is the greatest of them. It is greater
//     than the token of every earlier multilock of the same members, or of some of them. For holders of one member
//     alone, and for sets that overlap, compare that member's tokens.
//
// # Not guaranteed
//
// One instant: the members are taken one after the other, and who waits for one holds those before it, which may be
// for long.
//
// An order over several servers. A member that somebody has, of another session than those that are held, is waited for with a
// patience of 10 ms to 1.3 s, at random, and one whose server does not say for a second; then all is given back and begun again. Two that meet the other way round find the gap between two rounds soon,
// within their contexts, but nothing says which of them is first, and a place in the line of a fair member is lost with
// each round.
//
// No deadlock where locks are taken one by one: who holds a lock, under a context of Lease.Enter or beside it, and then
// takes several that come before it in order, can wait for somebody who waits for it. A lock that two sessions of one
// server name is held by the one and waited for by the other, until the context ends.
//
// Progress beside a RedissonMultiLock in Java that names the same locks in another order: each side
// takes a lock that the other waits for, releases it and begins again, and neither may ever have
// all. Name the locks in Java in the order that Lock.Order returns.
//
// What its members do not guarantee.
//
// # States
//
//	            the next in order
//	             +------------+
//	             |            v
//	entering --> taking, one member or a run of reentrant ones in one script --> held
//	   ^            |                                                              |
//	   |            | patience, or a member was lost                               | Unlock; a member is lost
//	   +--all given back                                                           v
//	                | context, Close, an error                                all given back
//	                v
//	             all given back, the error
//
// # Time
//
// As the members have it. The lease of the whole has no time of its own.
//
// # Failure
//
//	event                           holder                               waiters
//	a reply is lost                 nothing, or the call is undone       nothing
//	a member is lost                ErrLost; the others are given back   -
//	a server of several away        ErrLost at its members' deadline     wait on, within their context
//	lost while others are waited for  -                                  all is taken anew
//	the release of one is not answered  ErrUnconfirmed; it goes on in the background
//
// The errors of Unlock are joined, each with the name of its member.
//
// # Redis
//
// No keys of its own, and one script, lock/gather, beside those of the members. For the cost
// of an idle name see the package of each member.
//
//	reentrant members beside each other in order   1 round trip to take them, 1 to give them back, 64 at a time
//	in a cluster                                   the same for those of one slot
//	every other member                             as its package says, taken one after the other, given back at once
//	a member that somebody has                     a round trip more; two while members of another session are held
//	entering again                                 0
//	held                                           the members' renewals
package multilock
