// SPDX-License-Identifier: Apache-2.0

// Package reentrant is a lock across processes, like sync.Mutex across goroutines, that its
// holder can enter again.
//
// # Usage
//
//	mu := reentrant.New(session, "order/42")
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// See the examples for the rest. Package fair is the same lock without turns (see below). Both can
// be used on one name at the same time, so a service can change from one to the other while it runs.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, no two holders of a name overlap, in any process.
//  2. The holder knows: a lease ends here before its hold can end on the server; the first check
//     after a pause reports it. ForceUnlock is reported at once, by message. A deleted or changed key
//     is reported by the next renewal, a third of the lease later at most.
//  3. Fencing: every lease has a token that is greater than the token of every earlier holder.
//  4. No leak: a Lock or TryLock that returned an error leaves neither a ticket nor a hold on the
//     server once the server answers, at the latest 3 s after the call was sent.
//  5. Every wait is bounded: the script that releases the lock grants it to the next waiter and
//     notifies it by a message. If the message is lost, the waiter finds out about a second later.
//  6. Order: goroutines of one session are served first in, first out. Sessions are served in turns,
//     first in, first out: a waiter in another process is delayed by at most one turn of each session
//     ahead of it. TryLock does not overtake a living waiter.
//
// # Turns
//
// A session has one ticket in the server's queue for all its goroutines. When the ticket is granted,
// the session hands the lock from goroutine to goroutine without the server. A turn ends after ten
// times as long as a hand-off to another process takes, which the session measures, and after 20 ms
// or 1,024 uses at the latest; one use is always allowed. Then one call releases the lock and, if
// goroutines still wait, queues the session again. While no other session waits, that call takes one
// round trip, and the next turn begins.
//
// Goroutines that ask on other terms (another lease, another number of replicas) have a ticket of
// their own. With FixedLease or MaxHold the time counts from the grant, so such a lock is not handed
// over, and every goroutine has a ticket.
//
// # Not guaranteed
//
// A place for a session that is not heard from for 3 s: a process that is stopped for longer, or cut
// off, is skipped, and after ten more seconds it queues at the end.
//
// Exclusion if a lease is not honoured: a holder that continues to work after its lease ended, because
// of a pause that it did not notice, works beside the next holder. Tokens are for that. A server that
// loses writes, in a failover or a restart without persistence, may grant the lock again while it is
// held; the holder learns that at its next renewal. signalbox.WaitReplicas grants only what enough
// replicas have. If the server loses the queue, the waiters form it anew, in the order in which they
// come back; if it loses the holder key alone, newcomers may overtake the queue until the next poll
// of a waiter, about a second later, and for one turn more.
//
// A prompt end of holds that were made before the server's clock was set back: the hold of a crashed
// holder lasts longer by as much.
//
// Leases shorter than 3 s after a crash: a hold that was granted to a waiter lasts as long as its
// session counted as alive, up to 3 s, before the first renewal. The lease itself ends when it should.
//
// # Time
//
// A lease counts from before its request was sent, by the monotonic and the wall clock, whichever is
// ahead, less a fiftieth and 2 ms. A hold that was granted to a waiter counts from the sending of the
// heartbeat that paid for it, and gets its full lease at the first renewal. Keys end by the server's
// clock, and tokens are made from it. The clocks of processes are never compared with each other.
//
// # Failure
//
//	event                           holder                          waiters
//	a reply is lost                 nothing, or the call is undone  nothing: the ticket stays
//	a grant's message is lost       -                               the next poll finds it
//	server away                     ErrLost at the deadline         continue to wait
//	server restarted empty          ErrLost at the next renewal     form a new queue
//	process stopped past the lease  ErrLost at its first check      the first living one gets the lock
//	waiter stopped for over 3 s     -                               it is skipped, and queues again
//	key deleted by another program  ErrLost at the next renewal     the first gets the lock at its next poll
//	ForceUnlock                     ErrLost at once, by message     the first gets the lock
//	holder crashed                  -                               the first gets the lock when the hold ends
//	granted, then crashed           -                               the next gets it within 3 s and a poll
//
// # Redis
//
// Three keys: "<prefix>{<name>}:lock", which says who holds the lock and whether a queue may exist;
// ":line", a sorted set with a member for each ticket; ":lives", a hash with a field for each waiting
// session. The last two end ten minutes after their last use, and calls touch them only if the first
// says that a queue may exist. Grants are sent on the channel "<prefix>grants:<session>", in a cluster
// on "<prefix>{<name>}:grants:<session>". A session that has held something for 100 ms listens for
// ForceUnlock on "<prefix>session:<session>". Scripts lock/*, line/beat, holder/describe and
// holder/renew. Redis 7.0, Valkey 7.2 or newer.
//
// With signalbox.Redisson the key is the name, a hash that lives as long as the lease, the channel
// is "redisson_lock__channel:{<name>}", and the scripts are redisson/*. There is no queue at the
// server then: see docs/guarantees.md. With signalbox.Fenced there is also the counter
// "redisson_lock_token:{<name>}", which never ends.
//
// An idle name costs about (170 + len(prefix) + len(name)) bytes for d after its last release. d is
// set by signalbox.WithTokenFloor, one minute by default. A service that uses each name only once
// needs that for (names per second) x d names: for 1,000 names a second, with 20 bytes of prefix
// and name, 11 MB. A name that was waited for also keeps ":lives" for ten minutes after the last wait:
// about 230 bytes, and 80 more for each further session that waited.
//
//	uncontended Lock      1 round trip, 4 commands
//	uncontended Unlock    1 round trip, 3 commands
//	Lock that waits       1 round trip and a message; a poll more if the session did not wait just before
//	WaitReplicas          1 round trip more for a Lock that waits
//	entering again        0
//	handed over           0
//	Unlock                1, which grants the lock to the next waiter; 0 if it is handed over or entered still
//	held                  a renewal each third of the lease, 256 locks a script, in a cluster one
//	waiting               1 poll a second for each lock, however many goroutines wait
//	Holder, IsLocked      1
//	Waiters               1 for 100 tickets
//	ForceUnlock           2
package reentrant
