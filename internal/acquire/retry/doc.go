// SPDX-License-Identifier: Apache-2.0

// Package retry waits without a queue at the server: the first session that tries has the lock. It is for
// layouts that keep no tickets. It has the same interface as package queue, so a hold does not know which of the two
// granted it.
//
// # What it is
//
// A waiter tries (layout.Retry.Acquire). If the lock is held, it waits for a message on the lock's
// channel or for a poll (package notify), and tries again. There is no queue: a session that tries at the
// right instant has the lock. Package waitroom decides which goroutine of a session tries: one at a time,
// unless each goroutine has a channel of its own.
//
// # Guarantees
//
//  1. An attempt has a hold of its own, and repeats its tries under that. If the reply to a try was lost and the try
//     acquired the lock, the next try extends that hold.
//  2. No leak: if a try has an unknown outcome, the hold is released in the background when the attempt ends, and again
//     after the not-after, if a copy of the try may arrive late.
//  3. Every wait is bounded, and misses no release: package notify has the bounds.
//  4. After a release that others were notified of (reply 2), the session does not try for BackOff: otherwise it would
//     be granted the lock again before the message arrives. Try does not wait for that.
//
// # Not guaranteed
//
// Order between processes, and that every waiter is served: a waiter starves if others always try before
// it. The scripts of a layout may do something about that.
//
// # States of an attempt
//
//	requesting --a try acquires the lock--> granted --Release, Abandon--> over
//	  |                                                                   ^
//	  +--- the wait ends -------------------------------------------------+
//
// The release of an attempt that may have something on the server is repeated until it has a reply. Then
// the attempt is forgotten.
//
// # Locking
//
// One mutex guards all retried locks of a kind in a session. No request is sent while it is locked. It is locked before
// the mutexes of the timers, the undoer and the dispatcher.
package retry
