// SPDX-License-Identifier: Apache-2.0

// Package reentrant is a lock across processes, like sync.Mutex across goroutines, that its holder
// can enter again.
//
//	mu := reentrant.New(session, "order/42")
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// Package fair is the same lock without turns (see below). Both can be used on one name at once.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, no two holders of a name overlap, in any process.
//  2. The holder knows: a lease ends here before its hold can end on the server. ForceUnlock is
//     reported by message; a deleted or changed key is reported by the next renewal.
//  3. Fencing: every lease has a token that is greater than the token of every earlier holder.
//  4. No leak: a Lock or TryLock that returned an error leaves neither a ticket nor a hold on the
//     server once the server replies, at the latest 3 s after the call was sent.
//  5. Every wait is bounded: the script that releases the lock grants it to the next waiter and
//     notifies it by a message. If the message is lost, the waiter finds out about a second later.
//  6. Order: goroutines of one session are served first in, first out. Sessions are served in turns,
//     first in, first out: a waiter in another process is delayed by at most one turn of each session
//     ahead of it. TryLock does not overtake a living waiter.
//
// # Turns
//
// A session has one ticket in the server's queue for all its goroutines. In its turn it hands the lock
// from goroutine to goroutine without the server, for ten times as long as a hand-off to another
// process takes, at most 20 ms or 1,024 uses, at least one use. Goroutines that use FixedLease or
// MaxHold have a ticket each.
//
// # Not promised
//
//   - A ticket for a session that is not heard from for 3 s: it is skipped.
//   - Exclusion if a holder continues to work after its lease ended. Use tokens.
//   - What a server lost: after a failover that lost writes it may grant a lock that is held. See
//     signalbox.WaitReplicas.
//
// # Time
//
// A lease counts from before its request was sent, by the clocks of this process, less a fiftieth and
// 2 ms. Keys end by the server's clock, and tokens are made from it. A new hold lasts 3 s, or the lease if
// that is shorter, until its first renewal gives it the whole lease, half a second to a second after the
// grant; see signalbox.WithFirstLease.
//
// # Cost
//
//	Lock                   1 round trip, 4 commands; if it waits, also a message
//	Unlock                 1 round trip, 3 commands, which also grants the lock to the next waiter
//	handed over in a turn  0
//	entering again         0
//	held for over 0.5 s    1 renewal within the first second, then 1 in each third of the lease
//	waiting                1 poll a second for each lock and session
//
// signalbox.WithMaxWaiters bounds how many goroutines of a session wait.
//
// An idle name costs the server about (170 + len(prefix) + len(name)) bytes for one minute; see
// signalbox.WithTokenFloor.
//
// # Redisson
//
// With signalbox.Redisson the lock is Java's RLock. Processes then have no order: waiters try again
// after each message.
//
// docs/internals/reentrant.md has the failures, the keys and all costs.
package reentrant
