// SPDX-License-Identifier: Apache-2.0

// Package semaphore is a weighted semaphore across processes.
//
//	limit := semaphore.New(session, "exports", 10) // 10 permits over all processes
//	lease, err := limit.Acquire(ctx, 2)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// Weighted has the methods of golang.org/x/sync/semaphore.
//
// # Guarantees
//
//  1. Capacity: all holders together have at most as many permits as the capacity, while each
//     holder stops when its lease ends and the server keeps its hold until then. A lower
//     SetCapacity takes no permit away; nothing is granted until enough are released.
//  2. Order: processes are served first in, first out, in the order in which the server received
//     their calls. A request for many permits is not starved by requests for few, and TryAcquire
//     overtakes no living waiter.
//  3. Hand-over: for at most 20 ms or 4,096 uses, released permits go first to a goroutine of the
//     same session that waits for the same number. A waiter in another process is delayed by at
//     most 20 ms and one use for each waiter ahead of it. If a session holds permits and its last
//     call had to wait, its next Acquire first waits for those, for up to 20 ms, even if others are
//     free.
//  4. The holder knows: a lease ends in its process before its permits can be granted to others.
//  5. Crashes: the permits of a crashed holder become free once, when its lease ends.
//  6. No leak: a call that returned an error leaves neither ticket nor permits. They are removed
//     once the server replies. A request that arrives more than 3 s after it was sent
//     does nothing.
//  7. A lost message costs about a second: the release grants permits to waiters, and notifies them
//     by message. If one is lost, the waiter's next poll finds the grant. Dead waiters delay others
//     by at most 4 s.
//  8. Tokens: a lease has a greater token than each lease that had its permits before.
//
// # Not promised
//
//   - Exclusion by tokens: several holders work at once, so a smaller token may be valid.
//   - The capacity for ever: that of SetCapacity is forgotten an hour after the last use, that of
//     New after a minute.
//   - Freedom from deadlock for a holder that acquires more. Acquire all at once.
//   - What package fair does not promise.
//
// # Time
//
// As in package reentrant.
//
// # Cost
//
//	Acquire    1 round trip; if it waits, also a message; 0 if the permits are handed over
//	Release    1 round trip; 0 if the permits are handed over, but 1 every 20 ms
//	Available  1 round trip, as SetCapacity
//	waiting    1 poll a second for each semaphore and session
//
// docs/how-to/sizing.md says what an idle name costs; signalbox.WithMaxWaiters bounds a session's
// waiters.
//
// # Redisson
//
// In the layout signalbox.Redisson the semaphore is Java's RPermitExpirableSemaphore, with Plain its
// RSemaphore. Processes then have no order, a large request may starve, and tokens come from the
// server's clock alone.
//
// docs/internals/semaphore.md has the failures, the keys, and what differs with Redisson.
package semaphore
