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
//  1. A lease ends in its process before its key can end on the server, unless the server's clock
//     steps. Lease.Err and the contexts of Bind and Enter read the clock themselves: the monotonic
//     clock or the wall clock, whichever is ahead. So the first check after a pause of any kind
//     reports the loss.
//  2. Every lease has a fencing token, which is greater than the token of every earlier holder of
//     the name. That holds after the name was idle, after a lease expired, and after the server
//     restarted or another one took over. The exception is a clock that is then behind the old one
//     by more than the outage lasted. See WithTokenFloor for a clock that is set back, and packages
//     rwlock and semaphore for several holders at once.
//  3. A call that returned an error holds nothing. What the server may have granted is released in
//     the background, as soon as the server replies.
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
// A renewed hold lasts 3 s until its first renewal, at most a second after the grant, gives it the
// whole lease. A process that dies before that delays the others by 3 s. An outage or a pause that
// begins before that and lasts for 3 s ends the hold. See WithFirstLease.
package signalbox
