// SPDX-License-Identifier: Apache-2.0

// Package signalbox has what the locks of this module share: sessions, leases, options and errors.
//
// Use it with the package of a kind of lock; alone it locks nothing. Begin with package reentrant.
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
// A service that has a go-redis or valkey-go client opens its session with module contrib/goredis or
// contrib/valkeygo. New of a kind returns no error: a bad name or option is the error of each call,
// and of Check. Options that several kinds take are here, and begin with With. Those of one kind are in
// its package, without With: election.Value.
//
// A hold is the server's entry for a holder: which session has the lock, and until when. A lease is
// what the holder has of it in its process (docs/glossary.md).
//
// # Guarantees
//
//  1. A lease ends in its process before its hold can expire on the server: as soon as this host's
//     monotonic clock or its wall clock has reached the deadline. Lease.Err compares both. So if a lease
//     ends while its process is paused, the first Lease.Err after the pause returns ErrLost. Done and
//     contexts end within half a second after a suspended host resumes. Two exceptions: the server's
//     clock is set forward; this host's wall clock is set back before the host is suspended, or just
//     after.
//  2. A lease has a greater fencing token than every earlier holder of the name, also after an idle
//     time, an expired lease, a restart or a failover. Tokens come from the server's clock. They still
//     rise if it is set back by less than a minute (WithTokenFloor sets more). Exceptions: it is set back
//     after a holder died; a restarted or another server has an earlier clock; an old primary still
//     grants. Tokens of packages rwlock, semaphore and redlock promise less.
//  3. A call that returned an error holds nothing. If the server granted something nevertheless, the
//     session releases it in the background, as soon as the server replies again. A request to acquire
//     that reaches the server more than 3 s after it was sent does nothing.
//  4. A lock that is held or waited for has no goroutine, timer or connection of its own, except a
//     connection while a call waits for replicas.
//
// # Not promised
//
// Exclusion beyond the lease: a process that is stopped between checking its lease and writing writes
// late. Exclusion after a server has lost data: after a failover it may grant a held lock. If neither
// may do harm, let the resource refuse smaller tokens than it has seen.
//
// # Errors
//
// "go doc signalbox.ErrHeld" lists all errors, such as ErrLost, ErrBusy and ErrNoReply, and which of them a server's words are.
//
// # Time
//
// A lease is 30 s long unless its kind says otherwise, and is renewed while it is held, so no call extends it.
// WithRenewedLease sets that length, the TTL or expiry of other libraries.
//
// Durations are milliseconds on the server, rounded up. The server's clock ends holds. A lease
// counts from before its request was sent, and is 2 % and 2 ms shorter than its hold.
//
// A new hold ends after 3 s (WithFirstLease sets another time) unless its first renewal, within a second
// of the grant, extends it to the whole lease. A process that dies before that renewal delays the others
// by at most 3 s and about a second. If the server or the process stops before it, the hold may be lost
// after 1 s, and is lost after 3 s. Holds in layouts of others have the whole lease from the
// start, and so have fixed leases, terms of elections and holds of a once if granted without waiting.
package signalbox
