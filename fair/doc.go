// SPDX-License-Identifier: Apache-2.0

// Package fair is a lock across processes that is granted in the order of the calls, over all
// processes, and that its holder can enter again.
//
//	mu := fair.New(session, "order/42")
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// The API is that of package reentrant, and so is the lock at the server: both can be used on one name
// at the same time, and exclude each other.
//
// # Guarantees
//
// Those of package reentrant, except for the order:
//
//  1. Order: first in, first out, by the order in which the server received the calls, over all
//     processes. Every goroutine has a ticket of its own. A living waiter keeps its place, and
//     TryLock overtakes none. If package reentrant uses the name as well, fair requests keep their
//     order among themselves. A reentrant ticket ahead of one can delay it by a turn of that
//     session, instead of by one use.
//  2. No turns: a session never hands the lock to one of its own goroutines before a waiter that is
//     ahead of that goroutine.
//
// # Not promised
//
// What package reentrant does not promise.
//
// # Time
//
// As in package reentrant.
//
// # Cost
//
// As in package reentrant, but nothing is handed over inside the process: every Lock that waits costs
// a round trip and a message, every Unlock a round trip, and every waiting goroutine a poll a second.
// signalbox.WithMaxWaiters bounds how many goroutines of a session wait.
//
// # Redisson
//
// In the layout signalbox.Redisson the lock is Java's RFairLock. Order and bounds are then those of Redisson's
// queue: a dead waiter is skipped after 5 minutes, or after signalbox.FairLockWaitTimeout. The lock
// excludes package reentrant's with that layout, and shares no queue with it.
//
// docs/internals/reentrant.md has the failures, the keys and all costs.
package fair
