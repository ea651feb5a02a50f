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
//  1. Exclusion: a writer holds the lock alone, over all processes, while each holder stops when
//     its lease ends and the server keeps its hold until then.
//  2. Writers are served first in, first out, in the order in which the server received their calls.
//  3. No side starves. A waiting writer waits for the readers that hold the lock, and later readers wait
//     behind it. When a writer is done, all waiting readers get the lock before the next writer.
//  4. The holder knows: a lease ends in its process before its hold can expire on the server. A
//     message reports ForceUnlock, and the next renewal a changed key.
//  5. Fencing: a writer's token is greater than those of all earlier holders, a reader's greater than
//     those of all earlier writers. Readers that share a hold share a token.
//  6. No leak: a call that returned an error leaves neither ticket nor hold. They are removed once
//     the server replies. A delayed request is undone within 3 s of being sent.
//  7. Every wait is bounded, whichever message is lost: the script that ends a hold grants the lock
//     to the next waiters and notifies them by message. If one is lost, the waiter's poll finds the
//     grant about a second later. Dead waiters delay others by at most 4 s, a crashed reader by its
//     lease.
//
// # Not promised
//
//   - Upgrade: a reader that calls Lock gets ErrUpgrade.
//   - A second RLock without the context of the first lease: it waits behind a waiting writer, which
//     waits for the first lease. As with sync.RWMutex this is a deadlock. Pass Lease.Enter(ctx).
//   - That a waiting writer stops readers at once: for up to 20 ms after a session last heard from
//     the server, new readers enter beside its readers.
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
// signalbox.WithTokenFloor says what an idle name costs; signalbox.WithMaxWaiters bounds a
// session's waiters.
//
// # Redisson
//
// In the layout signalbox.Redisson the lock is Java's RReadWriteLock. Guarantees 2 and 3 do not hold then: a
// writer gets the lock in a moment without readers. Do not give readers a longer lease than Java's
// lockWatchdogTimeout.
//
// docs/internals/rwlock.md has the states, the failures and the keys.
package rwlock
