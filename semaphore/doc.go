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
//  2. Order: first in, first out, by the order in which the server took in the calls, over all processes. Whoever
//     lives keeps its place, and a wish for many permits is not starved by wishes for few. TryAcquire goes before
//     nobody.
//  3. The holder knows: a lease ends here before its permits can come back on the server; the first look after a
//     pause tells. What somebody did to the key is told by the next renewal, a third of the lease later at most.
//  4. Crashes: the permits of a holder that crashed are free when its lease ends, however many holders crashed.
//     Permits that came back once do not come back again: who releases too late is told so.
//  5. No leak: an Acquire or TryAcquire that answered an error leaves neither ticket nor permits on the server once
//     the server answers, at the latest 3 s, or the lease if that is longer, after it was sent.
//  6. Every wait is bounded: a waiter is granted its permits by the very script that gives them back, and told by a
//     message; where that is lost it finds out about a second later. Waiters that died delay nobody by more than
//     3 s, for as long as they count as living, and a second.
//  7. Tokens: every lease has one, greater than those of all leases of the semaphore that were granted before.
//
// # Not guaranteed
//
// Exclusion by tokens: several hold permits at the same time, so a smaller token is no sign of a holder whose lease has
// ended.
//
// A place for those who are not heard of for 3 s, the capacity when a lease is not honoured, what a server that loses
// writes does to it, and what follows where the server's clock is set back: as in package fair.
//
// The capacity that SetCapacity set, for ever: the key goes an hour after the last permits were taken or given back,
// and where they are held for longer, some 15 s after their leases end.
//
// That who holds permits and asks for more gets them: nobody knows who waits for whom. Take all at once.
//
// # States
//
// Of an Acquire call: entering, in line, granted; see package line. Of permits whose lease was unlocked: free, or
// given to the next in line, by one script. They are never passed on inside the process past others.
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
//	fewer permits than one wants   -                               ErrCapacity
//
// # Redis
//
// Three keys: "<prefix>{<name>}:permits", a sorted set, one member a lease; ":permits:line", one member a waiter;
// ":permits:lives", a hash, one field a session. None of them is a lock's: a lock of the same name stands beside. Grants
// are told on "<prefix>grants:<session>", in a cluster on "<prefix>{<name>}:grants:<session>". Scripts semaphore/*,
// holds/* and line/beat. Redis 7.0, Valkey 7.2 or newer.
//
//	uncontended Acquire   1 round trip
//	Acquire that waits    1 round trip and a message; a look more where the session did not wait a moment ago
//	Unlock                1, which grants the permits to the next
//	held                  a renewal each third of the lease, 256 leases a script
//	waiting               1 look a second for each semaphore, however many wait in the session
//	Available             1, which writes nothing
//
// The server's work for each grows with the logarithm of how many leases and waiters there are; for Available also
// with the leases that ended by themselves a moment ago.
package semaphore
