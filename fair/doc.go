// SPDX-License-Identifier: Apache-2.0

// Package fair is a lock across processes that is given in the order in which it was asked for, by
// whatever process, and that its holder can enter again.
//
// # Usage
//
// See the examples. It has the surface of package reentrant, and Waiters beside it, which tells who stands
// in line.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, no two holders of a name overlap, in any process.
//  2. Order: first in, first out, by the order in which the server took in the calls, over all
//     processes. Whoever lives keeps its place; TryLock goes before nobody.
//  3. The holder knows: a lease ends here before its hold can end on the server; the first look
//     after a pause tells. ForceUnlock is told by message, at once. What else somebody did to the key is
//     told by the next renewal, a third of the lease later at most.
//  4. Fencing: every lease has a token that is greater than the token of every earlier holder.
//  5. No leak: a Lock or TryLock that answered an error leaves neither ticket nor hold on the server once
//     the server answers, at the latest 3 s after it was sent.
//  6. Every wait is bounded: a waiter is granted the lock by the very script that releases it, and told by
//     a message; where that is lost it finds out about a second later. Waiters that died, however many, delay
//     nobody by more than 3 s, for as long as they count as living, and a second.
//
// # Not guaranteed
//
// A place for those who are not heard of for 3 s: a process that is stopped for longer, or cut off, is
// passed over, and after some ten seconds more stands at the end of the line.
//
// Exclusion when a lease is not honoured, and what a server that loses writes does to it: as in package
// reentrant. A line that the server lost is formed anew, in the order in which the waiters come back.
//
// A prompt end of what stood there when the server's clock was set back: the hold of a crashed holder lasts
// longer by as much.
//
// Leases shorter than 3 s in a crash: a hold that was granted lasts as long as its waiter counted as
// living, up to 3 s, before the first renewal. The lease ends here when it should.
//
// # States
//
// Of a Lock call: entering, in line, granted; see package line. Of a hold whose last lease was unlocked:
// given to the next in line, or to nobody, by one script. It is never passed on inside the process past
// others.
//
// # Time
//
// As in package reentrant. A hold that was granted to a waiter counts from the sending of the
// heartbeat that paid for it, and is renewed to its full length a third into what that gave.
//
// # Failure
//
//	event                          holder                          waiters
//	a reply is lost                nothing, or the call is undone  nothing: the place is kept
//	a grant's message is lost      -                               found by the next look
//	server away                    ErrLost at the deadline         wait on, within their context
//	server restarted empty         ErrLost at the next renewal     form a new line
//	process stopped past the lease ErrLost at its first look       the first that lives gets the lock
//	waiter stopped for over 3 s    -                               it is passed over, and comes back
//	key deleted by a stranger      ErrLost at the next renewal     the first gets the lock at the next look
//	ForceUnlock                    ErrLost at once, by message     the first gets the lock
//	holder crashed                 -                               the first gets the lock when the hold ends
//	granted, then crashed          -                               the next gets it within 3 s and a look
//
// # Redis
//
// Three keys: "<prefix>{<name>}:lock", the holder key of every kind of lock, which stays while somebody
// stands in line; ":line", a sorted set, one member a waiter; ":lives", a hash, one field a session. The last
// two go ten minutes after their last use. Grants are told on "<prefix>grants:<session>", in a cluster on
// "<prefix>{<name>}:grants:<session>", and each session that has held something for 100 ms hears of a ForceUnlock on
// "<prefix>session:<session>". Scripts fair/*, line/beat, holder/describe and holder/renew. Redis 7.0, Valkey 7.2 or newer.
//
// An idle name costs about (170 + len(prefix) + len(name)) bytes for d after its last release. d is
// set by signalbox.WithTokenFloor, one minute by default. A service that uses each name only once
// needs that for (names per second) x d names: for 1,000 names a second, with 20 bytes of prefix
// and name, 11 MB. A name with waiters also keeps ":lives" for ten minutes after the last wait:
// about 230 bytes, and 80 more for each further session that waited.
//
// With signalbox.Redisson the keys are those of Redisson's RFairLock: the name,
// "redisson_lock_queue:{<name>}" and "redisson_lock_timeout:{<name>}". The channels are
// "redisson_lock__channel:{<name>}:<hold>", and the scripts redisson/fair-*. Guarantees 2 and 6 are
// those of Redisson's queue, see docs/guarantees.md: a waiter that died is skipped after 5 minutes
// at the earliest, or after signalbox.FairLockWaitTimeout. Each waiter tries once a second, and is
// woken by a message of its own.
//
//	uncontended Lock      1 round trip
//	Lock that waits       1 round trip and a message; a look more where the session did not wait a moment ago
//	entering again        0
//	Unlock                1, which grants the lock to the next
//	held                  a renewal each third of the lease, 256 locks a script, in a cluster one
//	waiting               1 look a second for each lock, however many wait in the session
//	Holder, IsLocked      1
//	Waiters               1 for 100 of them
//	ForceUnlock           2
package fair
