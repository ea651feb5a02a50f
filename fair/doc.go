// SPDX-License-Identifier: Apache-2.0

// Package fair is a lock across processes that is granted in the order in which it was asked for, by
// whatever process, and that its holder can enter again.
//
// # Usage
//
// See the examples. The API is that of package reentrant, and so is the lock at the server: both can
// be used on one name at the same time, and exclude each other.
//
// # Guarantees
//
// Those of package reentrant, except for the order:
//
//  1. Order: first in, first out, by the order in which the server received the calls, over all
//     processes. Every goroutine has a ticket of its own. A living waiter keeps its place, and TryLock
//     overtakes none. On a name that package reentrant uses as well, fair requests are served in their
//     order among themselves, and each reentrant ticket ahead of one may cost a turn instead of one use.
//  2. No turns: a hold is never handed over inside the process past a waiter.
//
// # Not guaranteed
//
// What package reentrant does not guarantee either.
//
// # Redis
//
// Keys, channels, scripts and costs are those of package reentrant, except that nothing is handed over
// inside the process: every Lock that waits costs a round trip and a message, and every Unlock a round
// trip.
//
// With signalbox.Redisson the keys are those of Redisson's RFairLock: the name,
// "redisson_lock_queue:{<name>}" and "redisson_lock_timeout:{<name>}". The channels are
// "redisson_lock__channel:{<name>}:<hold>", and the scripts redisson/fair-*. Order and bounds are
// those of Redisson's queue, see docs/guarantees.md: a waiter that died is skipped after 5 minutes
// at the earliest, or after signalbox.FairLockWaitTimeout. Each waiter tries once a second, and is
// woken by a message of its own. The lock excludes package reentrant's with that layout, and shares no
// queue with it.
package fair
