// SPDX-License-Identifier: Apache-2.0

// Package fair is a lock across processes that is granted in the order in which the server received the
// calls. Its holder can acquire it again.
//
// Use it if the order of calls matters more than speed. Otherwise use package reentrant, which
// hands over inside a process.
//
//	mu := fair.New(session, "order/42")
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// The context of lease.Enter acquires it again, without the server. The API is that of package
// reentrant, and so is the lock at the server: on one name the two exclude each other.
//
// # Guarantees
//
// Those of package reentrant, except for the order:
//
//  1. Order: first in, first out, by the order in which the server received the calls, over all
//     processes. Each waiting goroutine has its own ticket, which is its entry in the server's queue. A
//     living waiter, which is one that the server heard from in the last 3 s, keeps its ticket. TryLock
//     does not overtake a living waiter. docs/guarantees.md has the exceptions.
//  2. No turns: a released lock goes to the first ticket, even if a goroutine of the session that
//     released it waits further back.
//  3. Beside package reentrant on the same name, fair calls keep their order among themselves. Each
//     ticket of a reentrant session ahead of a fair call delays it by a turn of that session, instead
//     of by one use.
//
// # Not promised
//
// What package reentrant does not promise.
//
// # Time
//
// As in package signalbox: a new hold ends after 3 s unless its first renewal extends it.
//
// # Cost
//
// As in package reentrant, but nothing is handed over inside the process: every Lock that waits costs
// a round trip and a message, every Unlock a round trip, and every waiting goroutine a poll a second.
// signalbox.WithMaxWaiters bounds how many goroutines of a session wait.
//
// # Layouts of others
//
// In a layout of other clients (signalbox.WithLayout) the lock shares their keys, and their queue decides
// the order. A lock of package reentrant with that layout excludes this one, but does not use its queue, so it
// may overtake. The package of the layout says what else differs.
//
// docs/internals/failures.md has the failures.
package fair
