// SPDX-License-Identifier: Apache-2.0

// Package rwlock is a read-write lock across processes: many readers or one writer.
//
//	mu := rwlock.New(session, "settings")
//	lease, err := mu.RLock(ctx) // or Lock, to write
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// Lock, TryLock, Do and Locker are for writers; RLock, TryRLock, RDo and RLocker are for readers.
// Downgrade makes a writer a reader.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, a writer holds the lock alone, over all processes.
//  2. Writers are served first in, first out, in the order in which the server received their calls.
//  3. No side starves. A waiting writer waits for the readers that hold the lock, and later readers wait
//     behind it. When a writer is done, all waiting readers get the lock before the next writer.
//  4. The holder knows: a lease ends here before its hold can end on the server. ForceUnlock is
//     reported by message; a changed key is reported by the next renewal.
//  5. Fencing: a writer's token is greater than those of all earlier holders, a reader's greater than
//     those of all earlier writers. Readers that share a hold share a token.
//  6. No leak: a call that returned an error leaves neither ticket nor hold on the server once the
//     server replies, at the latest 3 s after it was sent.
//  7. Every wait is bounded: the script that ends a hold grants the lock to the next waiters and
//     notifies them by a message. If the message is lost, the next poll finds out, about a second
//     later. Dead waiters delay others by at most 4 s, a crashed reader by its lease.
//
// # Not promised
//
//   - Upgrade: a reader that calls Lock gets ErrUpgrade.
//   - A second RLock without the context of the first lease: it waits behind a waiting writer, which
//     waits for the first lease. As with sync.RWMutex this is a deadlock. Pass Lease.Enter(ctx).
//   - Exclusion of new readers from the first moment on: for up to 20 ms after the server last replied,
//     readers enter beside a reader of their own session.
//   - What package fair does not promise.
//
// # Time
//
// As in package reentrant. Readers that share a hold share its deadline and its renewals.
//
// # Cost
//
//	Lock, RLock     1 round trip; if it waits, also a message
//	RLock           0 beside a reader of the same session, but 1 every 20 ms
//	Unlock          1 round trip; 0 if other readers share the hold
//	Downgrade       1 round trip
//	entering again  0
//	waiting         1 poll a second for each lock and session
//
// signalbox.WithMaxWaiters bounds how many goroutines of a session wait.
//
// An idle name costs the server about (170 + len(prefix) + len(name)) bytes for one minute; see
// signalbox.WithTokenFloor.
//
// # Redisson
//
// With signalbox.Redisson the lock is Java's RReadWriteLock. Guarantees 2 and 3 do not hold then: a
// writer gets the lock in a moment without readers. Do not give readers a longer lease than Java's
// lockWatchdogTimeout.
//
// docs/internals/rwlock.md has the states, the failures and the keys.
package rwlock
