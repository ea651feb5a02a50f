// SPDX-License-Identifier: Apache-2.0

// Package semaphore is a weighted semaphore across processes: at most so many permits are held at
// once, and those of a crashed holder come back.
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
//  1. Capacity: while leases are honoured, all holders together have at most as many permits as the
//     capacity. SetCapacity to fewer takes no permit away; nothing is granted until enough came back.
//  2. Order: processes are served first in, first out, in the order in which the server received
//     their calls. A request for many permits is not starved by requests for few, and TryAcquire
//     overtakes no living waiter.
//  3. Hand-over: a released permit goes first to a goroutine of the same session that waits for the
//     same number of permits, for at most 20 ms or 4,096 uses. A waiter in another process is delayed
//     by at most 20 ms and one use for each waiter ahead of it. If the last call of the session had to
//     wait, and the session still has permits, Acquire waits for those for up to 20 ms before it asks
//     the server, even if others were released meanwhile.
//  4. The holder knows: a lease ends here before its permits can be granted to others.
//  5. Crashes: the permits of a crashed holder are free when its lease ends, once.
//  6. No leak: a call that returned an error leaves neither ticket nor permits on the server once the
//     server replies, at the latest 3 s after it was sent.
//  7. Every wait is bounded: the script that releases permits grants them to waiters and notifies them
//     by a message. If the message is lost, the next poll finds out, about a second later. Dead
//     waiters delay others by at most 4 s.
//  8. Tokens: a lease has a greater token than every earlier holder of its permits.
//
// # Not promised
//
//   - Exclusion by tokens: several holders work at once, so a smaller token is not a stale one.
//   - The capacity for ever: one that was set by SetCapacity is forgotten an hour after the last use,
//     the capacity passed to New after a minute.
//   - Freedom from deadlock for a holder that asks for more permits. Acquire all at once.
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
//	Available  1 round trip, SetCapacity too
//	waiting    1 poll a second for each semaphore and session
//
// signalbox.WithMaxWaiters bounds how many goroutines of a session wait.
//
// An idle name costs the server about (185 + len(prefix) + len(name)) bytes for one minute; see
// signalbox.WithTokenFloor.
//
// # Redisson
//
// With signalbox.Redisson the semaphore is Java's RPermitExpirableSemaphore, with Plain its RSemaphore.
// Processes then have no order, a large request may starve, and tokens come from the server's clock
// alone.
//
// docs/internals/semaphore.md has the states, the failures, the keys, and what differs with Redisson.
package semaphore
