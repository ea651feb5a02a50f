// SPDX-License-Identifier: Apache-2.0

// Package signalbox has what the locks of this module share: the session of a process, the lease
// that every lock returns, options, and errors. The locks are in packages of their own, beside
// this one. Begin with package reentrant.
//
// # Usage
//
//	session, err := signalbox.Dial(ctx, "redis://127.0.0.1:6379")
//	...
//	lease, err := reentrant.New(session, "order/42").Lock(ctx)
//	...
//	defer lease.Unlock()
//	return charge(lease.Bind(ctx), lease.Token())
//
// # Guarantees
//
//  1. A lease ends here before its key can end on a server whose clock does not step. Lease.Err
//     and the contexts of Bind and Enter compare the clock themselves, the monotonic and the wall
//     clock, whichever is ahead. So the first check after a pause of any kind reports the loss.
//  2. Every lease has a fencing token, which is greater than the token of every earlier holder of
//     the name. That holds after the name was idle, after a lease expired, and after the server
//     restarted, unless the new server's clock is behind the old one by more than the outage
//     lasted. Packages rwlock and semaphore say what it means for several holders at once.
//  3. A call that returned an error holds nothing once the server replies.
//  4. No goroutine, timer or connection for each lock held or waited for.
//
// # Not guaranteed
//
// Exclusion beyond the lease. A process that is stopped between checking its lease and writing
// writes late. A server that loses a write in a failover grants twice. If that must not happen, the
// resource itself has to check the token.
//
// # Time
//
// Durations are time.Duration; on the server they are milliseconds, rounded up. The server's
// clock ends keys and makes tokens. Deadlines here count from before the request was sent.
//
// A renewed hold lasts 3 s at first, and has its whole lease after a second: a process that dies before
// that delays the others by 3 s, and an outage or a pause of 3 s then ends the hold; see WithFirstLease.
package signalbox
