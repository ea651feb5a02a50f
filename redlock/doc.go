// SPDX-License-Identifier: Apache-2.0

// Package redlock is a lock that a quorum of independent servers gives: it goes on while a minority of them is away,
// frozen, slow or empty, without any of them replicating to another.
//
// # Usage
//
// See the examples. New takes a session for each server: three, five or another odd number. The rest is the surface
// of package reentrant.
//
// A process can begin while a minority of its servers is away, and must not leave these out: a quorum of fewer servers is
// another quorum, and both could grant. signalbox.Dial answers an error for a server that is away. rueidis.NewClient, with the option
// ForceSingleClient, answers a client beside its error: a session over that has a vote when the server is back. The first example
// does so.
//
// A server that is new to this lock grants nothing for one lease, since it cannot be told from one that lost its data: the
// first Lock over new servers takes that long, once.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, no two holders of a name overlap, as long as the assumptions below hold.
//  2. The holder knows: a lease ends here before the keys of the quorum that last confirmed it can end there; the first
//     look after a pause tells. What somebody did to the keys is told by the next renewal, a third of the lease later at
//     most; ForceUnlock by message.
//  3. Fencing: every lease has a token. That of a hold whose Unlock answered nil is smaller than those of all later holds;
//     for holds that ended otherwise see below, and Fenced.
//  4. No leak: what a call that answered an error has on any server is given back as soon as that server answers, also what it
//     grants late; at the latest it ends with the lease.
//  5. Every wait is bounded: a server has a tenth of the lease, and at most a second, to answer, and is not waited for
//     where the others decide. A waiter is woken by the messages of a quorum; servers are looked at about once a second, and
//     the lock is tried again after 5 s whatever was heard.
//  6. One server, one vote, also where several sessions go to it.
//  7. First in, first out among the goroutines of one process. Of those one at a time asks the servers.
//
// # Not guaranteed
//
// What a consensus guarantees. A quorum of leases is no log that all agree on: its servers do not know of each other, and
// exclusion rests on time. It holds as long as
//
//   - clocks run alike: those of the servers and of the process gain or lose less than a fiftieth on each other, and no
//     quorum's clocks step forward by much during a hold. That they tell different times does no harm;
//   - the holder looks at its lease: a process that is stopped between its last look and its write writes late,
//     as with any lease;
//   - a server that loses holds notices it: one that restarted, was flushed, or is a replica that took over, finds its epoch missing
//     or another life's, and grants nothing for the greatest lease. One that loses single keys, by eviction or by hand, does not.
//     Servers need no persistence, and maxmemory-policy noeviction;
//   - all processes have leases for the name that are as long, or say GreatestLease.
//
// What a resource should check is the token, since that holds when time does not: it refuses a smaller one than it has seen. Without Fenced
// tokens come from the servers' clocks, and the quorums of two holds may have but one server in common: after a hold that was
// not unlocked (its process died, or lost it) the next token is greater only if the clocks of the servers differ by less
// than the time between the two, which is a lease at the least. With Fenced a quorum keeps every token for a day, at the cost of
// a round trip, and tokens rise while the servers' clocks differ by less than that. Where all servers that two quorums have in common
// lost their data in between, the clocks decide again.
//
// Fairness between processes: after a release those who wait try at once, and where none has a quorum, again after
// pauses that are drawn by lot and grow.
//
// Repair during a hold: a server that lost the hold, or did not grant it, is no part of it until the next acquire.
//
// Passing on inside the process: each holder asks the servers.
//
// # States
//
// Of a Lock call:
//
//	Entering --carried lease--> entered again, no round trip
//	   | the first of its process       | others of the process are before it
//	   v                                v
//	 Voting <--------its turn-------- Queued
//	   | |  ^                           | context, Close
//	   | |  | messages of a quorum,     v
//	   | |  | or a pause by lot       error, nothing held
//	   | |  |
//	   | +--+ no quorum granted: what was granted is given back
//	   v
//	 a quorum granted, and time is left: [Fenced: a quorum keeps the token,] holding
//
// # Time
//
//	validity = lease - (time since before the first server was asked) - (a fiftieth of the lease and 2 ms)
//
// by the monotonic and the wall clock, whichever is ahead; looked at when the last answer that was needed is in. A renewal is sent
// to all servers each third of the lease, and counts from before its sending where a quorum answers it. Each server judges not-after
// and the age of its epoch by its own clock alone.
//
// # Failure
//
//	event                            holder                          waiters
//	a reply is lost                  nothing, or the call is undone  nothing
//	a minority is away               nothing                         nothing, or a look more
//	a quorum is away                 ErrLost at the deadline         wait on, within their context
//	a server restarted empty         nothing, or ErrLost where a     it does not vote for one greatest lease
//	                                 quorum says gone
//	process stopped past the lease   ErrLost at its first look       one gets the lock
//	holder crashed                   -                               one gets the lock when a quorum's keys end
//	ForceUnlock                      ErrLost, by message             woken, one gets the lock
//	any of the sessions is closed    waited for, then ErrLost        ErrClosed
//
// # Redis
//
// Each server has three keys. "<prefix>{<name>}:lock" is the holder key of every kind of lock; it
// lives as long as the lease, and for a minute after a release (signalbox.WithTokenFloor).
// "<prefix>epoch", one for all names, says since when the server has its data and in which life of
// it; it is compared once in 2 ms, and lives for a week after its last use.
// "<prefix>{<name>}:fence", with Fenced, lives for a day. There is one channel,
// "<prefix>{<name>}:lock:unlocked", and one for each session that has held something for 100 ms.
// Scripts redlock/* and holder/*. Redis 7.0, Valkey 7.2 or newer; no clusters. With the right to
// INFO a server's restart with old data is noticed; without it only a restart that lost all data
// is.
//
// An idle name costs each server about (170 + len(prefix) + len(name)) bytes for d after its last
// release. d is set by signalbox.WithTokenFloor, one minute by default. A service that uses each
// name only once needs that for (names per second) x d names: for 1,000 names a second, with 20
// bytes of prefix and name, 11 MB. With Fenced the key ":fence" costs as much again, for a day
// after the last grant.
//
//	uncontended Lock      1 round trip to all servers at once; 2 with Fenced
//	Lock that waits       2 votes, a message of each server, and a vote
//	entering again        0
//	Unlock                1
//	held                  a renewal each third of the lease, 256 locks a script, to each server
//	waiting               1 look a second at each server, for each lock
//	Holder, IsLocked      1 to all servers at once
//	ForceUnlock           2 to all servers at once
package redlock
