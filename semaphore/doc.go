// SPDX-License-Identifier: Apache-2.0

// Package semaphore is permits across processes: so many at once and no more, given in the order in which they were
// asked for, and given back by themselves where a holder crashed.
//
// # Usage
//
// See the examples. Acquire answers a lease, as the locks do; its Unlock gives the permits back. Weighted is the same
// for code that uses golang.org/x/sync/semaphore.
//
// # Guarantees
//
//  1. Capacity: while leases are honoured, the permits of all holders together are never more than there are.
//     SetCapacity to fewer takes nothing away: until as many came back nothing is granted.
//  2. Order: first in, first out. Of a session those who want the like, as many permits on the same terms, wait in a
//     queue of their own, one of them in a line at the server for all; and that line is served in the order in which the
//     server took in the calls, over all processes. Whoever lives keeps its place, and a wish for many permits is not
//     starved by wishes for few. TryAcquire goes before nobody.
//  3. Passing on: what somebody gives back the first goes to who waits for the like in its session, past others in
//     line, and without the server: for at most 20 ms, or 4,096 times, since the server granted it or heard that nobody
//     else waits. So who stands in line waits no longer than the order says, and for each of those before it 20 ms and
//     a use.
//  4. The holder knows: a lease ends here before its permits can come back on the server; the first look after a
//     pause tells. What somebody did to the key is told by the next renewal, a third of the lease later at most.
//  5. Crashes: the permits of a holder that crashed are free when its lease ends, however many holders crashed.
//     Permits that came back once do not come back again: who releases too late is told so.
//  6. No leak: an Acquire or TryAcquire that answered an error leaves neither ticket nor permits on the server once
//     the server answers, at the latest 3 s after it was sent.
//  7. Every wait is bounded: a waiter is granted its permits by the very script that gives them back, and told by a
//     message; where that is lost it finds out about a second later. Waiters that died delay nobody by more than
//     3 s, for as long as they count as living, and a second.
//  8. Tokens: every lease has one of its own, greater than that of everybody who had any of its permits before. One
//     that the server grants has a greater one than all leases of the semaphore that there were.
//
// # Not guaranteed
//
// Exclusion by tokens: several hold permits at the same time, and pass them on beside each other, so a smaller token is no
// sign of a holder whose lease has ended, or of one that came earlier.
//
// Order among those who wait for the like in a session and those who wait elsewhere: they have one place in line
// together, and a new one at the end whenever that was served.
//
// A place for those who are not heard of for 3 s, the capacity when a lease is not honoured, what a server that loses
// writes does to it, and what follows where the server's clock is set back: as in package fair.
//
// The capacity for ever. A capacity that SetCapacity set is forgotten an hour after the last use:
// the last release, or the end of the last lease. The capacity passed to New is forgotten after a
// minute (WithTokenFloor).
//
// That who holds permits and asks for more gets them: nobody knows who waits for whom. Take all at once.
//
// # States
//
// Of an Acquire call: entering, in line, granted, see package line; and where others of its session wait for the like,
// queued behind them, see package relay.
//
// Of permits whose lease was unlocked:
//
//   - passed on, where somebody waits for the like in the session, for as long as guarantee 3 says; never where the
//     lease has less than half of its time left, is lost, or counts its time from its beginning (FixedLease, MaxHold);
//   - asked about, where that time is over: they go on where nobody else stands in line, and there are not fewer by now;
//   - free, or given to the next in line, by one script, otherwise.
//
// # Time
//
// As in package fair: a renewed lease of 30 s unless an option says otherwise, and permits that were granted to a waiter
// count from the sending of the heartbeat that paid for them.
//
// # Failure
//
//	event                          holder                          waiters
//	a reply is lost                nothing, or the call is undone  nothing: the place is kept
//	a grant's message is lost      -                               found by the next look
//	server away                    ErrLost at the deadline         wait on, within their context
//	server restarted empty         ErrLost at the next renewal     form a new line; New's capacity counts
//	process stopped past the lease ErrLost at its first look       the first that fit get the permits
//	waiter stopped for over 3 s    -                               it is passed over, and comes back
//	holder crashed                 -                               the first that fit get the permits when the lease ends
//	granted, then crashed          -                               the next get them within 3 s and a look
//	the question is not answered   ErrUnconfirmed, or nil          as where a release is not: the permits come back
//	fewer permits than one wants   -                               ErrCapacity
//
// # Redis
//
// Three keys: "<prefix>{<name>}:permits", a sorted set, one member a lease; ":permits:line", one member a waiter;
// ":permits:lives", a hash, one field a session. None of them is a lock's: a lock of the same name stands beside. Grants
// are told on "<prefix>grants:<session>", in a cluster on "<prefix>{<name>}:grants:<session>". Scripts semaphore/*,
// holds/* and line/beat. Redis 7.0, Valkey 7.2 or newer.
//
// An idle name costs about (185 + len(prefix) + len(name)) bytes for d after its last release. d is
// set by signalbox.WithTokenFloor, one minute by default. A service that uses each name only once
// needs that for (names per second) x d names: for 1,000 names a second, with 20 bytes of prefix
// and name, 12 MB. A name with waiters also keeps ":permits:lives" for ten minutes after the last
// wait: about 230 bytes, and 80 more for each further session that waited.
//
// If SetCapacity set the capacity, the semaphore is kept for at least an hour after its last use.
//
//	uncontended Acquire   1 round trip
//	Acquire that waits    1 round trip and a message; a look more where the session did not wait a moment ago; none where
//	                      others of the session wait for the like
//	Unlock                1, which grants the permits to the next; none where they are passed on, but 1 every 20 ms
//	held                  a renewal each third of the lease, 256 leases a script, in a cluster one
//	waiting               1 look a second for each semaphore, however many wait in the session, of whom one stands in line
//	Available             1, which writes nothing
//	SetCapacity           1
//	Holders               1 for 100 of them
//
// The server's work for each grows with the logarithm of how many leases and waiters there are; for Available also
// with the leases that ended by themselves a moment ago.
//
// # Redisson's layout
//
// A semaphore with signalbox.Redisson is Redisson's RPermitExpirableSemaphore, and shares its permits with processes in Java. Each
// permit has an id and an end there, as here; those of Go are renewed, and Java sees them as its own. Guarantees 1, 3,
// 4, 5 and 6 hold between the two sides, on this side. What differs:
//
//   - There is no line: whoever tries in the right moment has the permits, and a wish for many may starve. In one session
//     they are given in the order in which they were asked for.
//   - Java takes permits out that have ended by its own clock. Where that is ahead of the server's, those of Go end early by as
//     much, and Go learns it at its next renewal: keep clocks together to well within a lease.
//   - Java's acquire without a lease takes permits that never end. Where its process dies nobody gets them back.
//   - The capacity is kept for ever, since Java gives keys no end. What Java's trySetPermits, setPermits and addPermits say counts; where
//     nobody has said anything, New's does. SetCapacity is setPermits.
//   - One call takes 1,000 permits at the most. Each has an id of its own. Where more than a hundred ended at once, TryAcquire
//     may be refused until as many calls have taken them out.
//   - Tokens come from the server's clock alone: they rise as long as it is not set back. Those of Java have none.
//   - Holders tells of each permit by itself, with its id in Label. Whose it is nobody says: Session is that of this session, or "".
//     Until is zero for one without an end.
//
// With Plain it is RSemaphore: a number of free permits, and who has the others stands nowhere. Java gives back what it never
// had, and what a Java process had that died is lost. Go keeps its own permits beside, in a key that Redisson does not
// know, so that its leases are the same as ever: they are renewed, end, and come back where a process in Go died, by the
// next one in Go that asks. How many permits there are nobody knows: who wants more waits, without ErrCapacity, SetCapacity
// and ExactCapacity are ErrBadOption, and Holders tells of those of Go.
//
// Keys: "<name>" and "{<name>}:timeout", or "{<name>}:signalbox" with Plain; the channel is "redisson_sc:{<name>}". Scripts redisson/permit-*. Acquire and
// Unlock take one round trip each; a session waits with one subscription, and one try a second. docs/redisson-protocol.md
// has the format.
package semaphore
