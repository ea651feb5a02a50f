// SPDX-License-Identifier: Apache-2.0

// Package signalbox has what the locks of this module share: the session of a process, the lease
// that every lock returns, options, and errors. The locks are in packages of their own. Begin
// with package reentrant.
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
// A hold is the server's entry for a holder: which session has the lock, and until when. A lease is
// what the holder has of it in its process. docs/glossary.md has the other words.
//
// # Guarantees
//
//  1. A lease ends in its process before its hold can expire on the server. It ends as soon as this
//     host's monotonic clock or its wall clock has reached the deadline. Lease.Err compares both
//     clocks, and so does Err of the contexts of Bind and Enter. So if a lease ends while its process
//     is paused, the first call of Err after that returns ErrLost. Two exceptions: the server's clock
//     is set forward; this host's wall clock is set back, and then the host is suspended.
//  2. Every lease has a fencing token, which is greater than that of every earlier holder of the name,
//     also after an idle time, an expired lease, a restart or a failover. Tokens come from the server's
//     clock, which may be set back by less than a minute (WithTokenFloor sets more). Two exceptions: a
//     server that restarts or takes over has a clock that is earlier than the last token; an old primary
//     still grants beside the new one. Tokens of packages rwlock, semaphore and redlock promise less.
//  3. A call that returned an error holds nothing. If the server granted something nevertheless, the
//     session releases it in the background, as soon as the server replies again. A request to acquire
//     that reaches the server more than 3 s after it was sent does nothing.
//  4. A lock that is held or waited for has no goroutine, timer or connection of its own.
//
// # Not promised
//
// Exclusion beyond the lease: a process that is stopped between checking its lease and writing writes
// late. Exclusion after a server has lost data: after a failover it may grant a held lock. If neither
// may do harm, let the resource refuse a token that is smaller than one it has seen.
//
// # Time
//
// Durations are time.Duration; on the server they are milliseconds, rounded up. The server's clock
// ends holds and makes tokens. A lease counts from before its request was sent, and is 2 % and 2 ms
// shorter than its hold.
//
// A new hold ends after 3 s (WithFirstLease sets another time) unless its first renewal, within a second
// of the grant, extends it to the whole lease. A process that dies before that renewal delays the others
// by 3 s. A server or a process that stands still before it for 1 to 3 s may lose the hold.
// Packages election and once begin with the whole lease if they need not wait.
package signalbox
