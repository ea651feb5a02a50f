// SPDX-License-Identifier: Apache-2.0

// Package redlock is a lock that a majority of independent servers grants. It works while a minority
// of them is away, frozen, slow or empty.
//
//	mu := redlock.New(sessions, "order/42") // a session for each of three, five, ... servers
//	lease, err := mu.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer lease.Unlock()
//
// Pass a session for every server, also for one that is away: fewer servers are another majority, and
// both could grant. The first example connects while a server is away.
//
// # Guarantees
//
//  1. Exclusion: no two holders of a name overlap while each stops when its lease ends, under the
//     assumptions below. The exception is ForceUnlock.
//  2. The holder knows: a lease ends in its process before its keys can expire on the majority of
//     servers that last confirmed it. The next renewal reports changed keys, and a message
//     ForceUnlock.
//  3. Fencing: every lease has a token. If its Unlock returned nil, every later lease has a greater
//     one. For leases that ended otherwise see Fenced.
//  4. No leak: if a call returned an error, each server releases what it granted as soon as it
//     replies. What is left on a silent server ends with the lease.
//  5. Every wait is bounded: a call waits for the reply of a server for a tenth of the lease, at
//     most a second. A waiter tries again when a majority of the servers has sent a message, and
//     after 5 s in any case.
//  6. One server has one vote, also if several sessions go to it.
//  7. Goroutines of one process are served first in, first out. One of them at a time asks the servers.
//
// # Not promised
//
// What a consensus protocol promises. Exclusion rests on these assumptions:
//
//   - The clocks of servers and process run equally fast, within a fiftieth, and are not set
//     forward on a majority during a hold. They may show different times.
//   - A holder checks its lease before it writes.
//   - A server that loses holds loses all of them. Sessions notice that by a mark, and the server
//     then has no vote for as long as the longest lease.
//   - All processes use one lease for the name, or set GreatestLease.
//
// So let the resource refuse a token that is smaller than one it has seen.
//
// Processes have no order: waiters try again after random, growing pauses.
//
// # Time
//
// A lease counts from before the first server was asked, less a fiftieth and 2 ms, by the clocks of
// this process. Each server uses its own clock. A new hold lasts 3 s until its first renewal; see
// signalbox.WithFirstLease.
//
// # Cost
//
//	Lock, TryLock   1 round trip to all servers at once; 2 with Fenced
//	Unlock          1
//	waiting         1 poll a second at each server
//
// A new server grants nothing for one lease, since it may be one that lost its data: the first
// Lock over new servers takes that long.
//
// docs/internals/redlock.md has the states, the failures, the keys and what an idle name costs.
package redlock
