// SPDX-License-Identifier: Apache-2.0

// Package rwlock is a read-write lock across processes: many readers or one writer.
//
// Use it if readers are many and read for long. For short reads package reentrant costs less.
//
//	mu := rwlock.New(session, "settings")
//	lease, err := mu.RLock(ctx) // or Lock, to write
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// Lock, TryLock, Do and Locker are for writers, RLock, TryRLock, RDo and RLocker for readers.
// mu.Downgrade(ctx, lease) makes a writer a reader.
//
// # Guarantees
//
//  1. Exclusion: a writer holds the lock alone, over all processes. For this, each holder must stop
//     when its lease ends, and the server must keep its hold (the holder's entry) until then.
//  2. Order: writers are served in the order in which the server received their calls.
//  3. No side starves. The first waiting writer waits only for those that hold the lock; later readers
//     wait behind it. When a writer is done, all waiting readers get the lock before the next writer.
//     Exceptions: readers may join others of their session (see below); a connection for messages is
//     lost (docs/guarantees.md).
//  4. The holder knows: a lease ends in its process before its hold can expire on the server (package
//     signalbox has two exceptions). A message reports a ForceUnlock at once; the next renewal
//     reports a deleted or changed key.
//  5. Fencing: a writer's token is greater than those of all earlier holders, a reader's than
//     those of all earlier writers (but see package signalbox). Readers that share a hold have one
//     token.
//  6. No leak: a call that returned an error leaves neither hold nor ticket, once the server replies
//     again. A request that arrives more than 3 s after it was sent makes none.
//  7. A lost message costs about a second: then the waiter's next poll finds the grant.
//  8. Crashes: waiters that died together delay the others by at most 4 s. A holder that died delays
//     them by at most one lease and about a second.
//
// # Not promised
//
//   - Upgrade: a reader that calls Lock gets ErrUpgrade.
//   - A second RLock without the context of the first lease: it waits behind a waiting writer, which
//     waits for the first lease: a deadlock, as with sync.RWMutex. Pass Lease.Enter(ctx).
//   - That a waiting writer stops readers at once: others of a session with readers may join them for
//     up to 20 ms more.
//   - What package fair does not promise.
//
// # Time
//
// As in package signalbox. Readers of one session share a hold and its renewals, unless they use
// WithFixedLease, WithMaxHold or WithReplicas.
//
// # Cost
//
//	Lock, RLock     1 round trip; a message if it waits
//	RLock           0 beside a reader of the same session, but 1 every 20 ms
//	Unlock          1 round trip; 0 if other readers share the hold
//	Downgrade       1 round trip
//	acquired again  0
//	waiting         1 poll a second for each lock and session
//
// # Layouts of others
//
// In a layout of other clients (signalbox.WithLayout) it shares their keys. Guarantees 2 and 3 do not hold
// then: a writer waits until there is no reader, and may starve. The package of the layout says what else
// differs.
//
// docs/internals/failures.md has the failures.
package rwlock
