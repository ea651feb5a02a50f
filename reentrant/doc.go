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
// Package fair is the same lock without turns. A name can be used with both.
//
// # Guarantees
//
//  1. Exclusion: no two holders of a name overlap, in any process, while each holder stops when its
//     lease ends and the server keeps its hold until then.
//  2. The holder knows: a lease ends in its process before its hold can expire on the server. A
//     message reports ForceUnlock, and the next renewal a deleted or changed key.
//  3. Fencing: every lease has a greater token than every earlier holder.
//  4. No leak: a call that returned an error leaves neither ticket nor hold. They are removed once
//     the server replies. A delayed request is undone within 3 s of being sent.
//  5. Every wait is bounded, whichever message is lost: the script that releases the lock grants it
//     to the next waiter and notifies that by message. If it is lost, the waiter's poll finds the
//     grant about a second later.
//  6. Order: goroutines of one session are served first in, first out. Sessions take turns in the
//     same order (see below): a waiter in another process is delayed by at most one turn of each
//     session ahead of it. TryLock does not overtake a living waiter.
//
// # Turns
//
// A session has one ticket in the server's queue for all its goroutines, and one for each that uses
// WithFixedLease or WithMaxHold. In its turn it hands the lock from goroutine to goroutine without the
// server. A turn lasts ten times as long as a hand-off to another process, at most 20 ms or 1,024
// uses, at least one use. It is shorter if the ticket waited for more than 200 ms.
//
// # Not promised
//
//   - A grant to a session that is silent for 3 s: its ticket is skipped.
//   - Exclusion of a holder that works after its lease ended. Use tokens.
//   - What a server lost: after a failover it may grant a lock that is held
//     (signalbox.WithReplicas).
//
// # Time
//
// A lease counts from before its request was sent, by the clocks of this process, less a fiftieth
// and 2 ms. The server's clock ends keys and makes tokens. A new hold lasts 3 s at most; its first
// renewal, within a second, gives it the whole lease (signalbox.WithFirstLease).
//
// # Cost
//
//	Lock                   1 round trip, 4 commands; if it waits, also a message
//	Unlock                 1 round trip, 3 commands
//	handed over in a turn  0
//	entering again         0
//	held for over 0.5 s    1 renewal within a second, then 1 each third of the lease
//	waiting                1 poll a second for each lock and session
//
// signalbox.WithTokenFloor says what an idle name costs; signalbox.WithMaxWaiters bounds a
// session's waiters.
//
// # Redisson
//
// In the layout signalbox.Redisson the lock is Java's RLock. Processes have no order then: waiters try again
// after each message.
//
// docs/internals/reentrant.md has the failures, the keys and all costs.
package reentrant
