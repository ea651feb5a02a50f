// SPDX-License-Identifier: Apache-2.0

// Package semaphore is a weighted semaphore across processes.
//
// Use it to bound how much runs at once. To bound calls in a second use a rate limiter.
//
//	limit := semaphore.New(session, "exports", 10)
//	lease, err := limit.Acquire(ctx, 2)
//	if err != nil {
//		return err
//	}
//	defer lease.Release()
//
// TryAcquire returns signalbox.ErrHeld if too few permits are free now. ErrCapacity means that there are fewer at all.
//
// # Guarantees
//
//  1. Capacity: all holders together never have more permits than the capacity. For this, each
//     holder must stop when its lease ends, and the server must keep its hold (the holder's entry)
//     until then. The exception: a lower SetCapacity takes no permit away.
//  2. Order: tickets, the entries of the server's queue, are granted first in, first out, so small
//     requests do not starve a large one. TryAcquire does not overtake a living waiter: one that
//     the server heard from in the last 3 s. docs/guarantees.md has an exception.
//  3. Hand-over: a session hands released permits to its goroutines that want exactly that many,
//     for one turn: at most 20 ms and one use, from Acquire to Release. Turns run side by side. So the
//     first ticket waits for at most one turn, and each ticket ahead adds at most one.
//  4. The holder knows: a lease ends in its process before its hold can expire on the server (package
//     signalbox has two exceptions). The next renewal reports a deleted or changed key.
//  5. Crashes: waiters that died together delay others by at most 4 s. A holder that died delays them
//     by at most one lease and about a second.
//  6. No leak: a call that returned an error leaves neither hold nor ticket, once the server
//     replies again. A request that arrives more than 3 s after it was sent makes none.
//  7. A lost message costs about a second: then the waiter's next poll finds the grant.
//  8. Tokens: a lease that the server granted has a greater token than all earlier leases; one that
//     was handed over, than those that had its permits before (but see package signalbox).
//
// # Not promised
//
//   - A free permit at once: if a session has permits, and its last Acquire had to wait, the next
//     one waits for those, for up to 20 ms.
//   - Exclusion by tokens: several holders work at once, so a smaller token may be valid.
//   - The capacity for ever: a minute after the last use, or an hour if SetCapacity set it, New's
//     counts again.
//   - Freedom from deadlock for a holder that acquires more.
//   - What package fair does not promise.
//
// # Time
//
// As in package signalbox: a new hold ends after 3 s unless its first renewal extends it.
//
// # Cost
//
//	Acquire  1 round trip; a message if it waits; 0 if handed over
//	Release  1 round trip; 0 if handed over, but 1 every 20 ms
//	waiting  1 poll a second for each semaphore and session
//
// # Layouts of others
//
// In a layout of other clients (signalbox.WithLayout) it shares their keys; with Plain, those of a
// semaphore without owners. Guarantees 2 and 3 do not hold then, and tokens rise unless the
// server's clock is set back. The package of the layout says what else differs.
//
// docs/internals/failures.md has the failures.
package semaphore
