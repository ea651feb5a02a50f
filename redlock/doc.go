// SPDX-License-Identifier: Apache-2.0

// Package redlock is a lock that a majority of independent servers grants. It works while a
// minority of them is unreachable, stopped or slow, or has lost its data.
//
// Use it if a lock has to outlast the loss of a server. With one server, or one and replicas,
// package reentrant is faster.
//
//	mu := redlock.New(sessions, "order/42") // of three, five, ... servers
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// Pass a session for every server, also for one that is unreachable: majorities of different sets of
// servers do not exclude each other. For a server that is away signalbox.Dial fails, unless it has
// signalbox.WithLazyConnect.
//
// # Guarantees
//
//  1. Exclusion: a name has at most one holder at a time, under the assumptions below. The
//     exception is ForceUnlock.
//  2. The holder knows: a lease ends in its process before its hold can expire on a majority: the
//     servers that granted it or, after a renewal, those that confirmed the last one. A message
//     reports a ForceUnlock at once; the next renewal reports a hold that a majority has lost.
//     Renewals give a lease that a majority still has back to servers that lost their data. So a
//     lease that all servers have survives if they restart one after the other, a third of the lease
//     and 2 s apart (a greatest lease and two thirds, if that is longer or if INFO is denied). A server
//     that did not grant the lease, because it had lost its data lately, gets it a greatest lease after
//     the loss. Fixed leases are not given back, nor is one that WithMaxHold ends within a lease, and
//     neither is a lease whose hold ForceUnlock ended on a server.
//  3. Fencing: with Fenced, a lease has a greater token than every earlier one, if the servers'
//     clocks differ by less than a day. Without Fenced, its token is greater only than those of
//     earlier leases whose Unlock returned nil, and only if the clocks differ by less than a minute
//     (signalbox.WithTokenFloor sets more). Neither is true if all servers that granted both holds
//     lost their data in between.
//  4. No leak: a call that returned an error leaves nothing behind. What a server granted is
//     released once that server replies again, or expires by itself.
//  5. Lock and TryLock give each server a tenth of the lease to reply, at most a second.
//  6. A lost message costs about a second: then the waiter's next poll finds the lock free.
//  7. One server has one vote, also if several sessions go to it.
//  8. Goroutines that lock a name over the same sessions are served first in, first out.
//
// # Not promised
//
// What a consensus protocol promises. Guarantees 1 and 2 rest on these assumptions:
//
//   - A holder stops when its lease ends.
//   - The clocks of servers and processes run equally fast, within 2 %.
//   - No server's clock is set forward during a hold. No host is suspended after its wall clock was
//     set back.
//   - A server loses all its keys or none: no single key is deleted or evicted. After a loss the
//     package lets it grant nothing for the longest lease.
//   - All processes use leases of one length for the name, or set GreatestLease.
//
// So use tokens.
//
// Processes have no order. A waiter tries again after a release, when its poll finds the lock free,
// and after 5 s at the latest.
//
// # Time
//
// As in package signalbox: a new hold ends after 3 s unless its first renewal extends it.
//
// # Cost
//
//	Lock, TryLock   1 round trip to all servers at once; 2 with Fenced
//	Unlock          1
//	waiting         1 poll a second at each server
//	renewing        1 script at each server every third of a lease; at a server without the hold
//	                1 more for up to 256 holds
//
// The first Lock over new servers takes one lease.
//
// docs/internals/failures.md has the failures.
package redlock
