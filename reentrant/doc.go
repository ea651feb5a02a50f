// SPDX-License-Identifier: Apache-2.0

// Package reentrant is a lock across processes, like sync.Mutex across goroutines, that its
// holder can enter again.
//
// # Usage
//
// See the examples. New names the lock, Lock takes it, and the lease that Lock answers says how
// long that can be relied on, and gives it back.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, no two holders of a name overlap, in any process.
//  2. The holder knows: a lease ends here before its key can end on the server; the first look
//     after a pause tells. ForceUnlock is told by message, at once. What else somebody did to the
//     key is told by the next renewal, a third of the lease later at most.
//  3. Fencing: every lease has a token that is greater than the token of every earlier holder.
//  4. No leak: a Lock or TryLock that answered an error leaves nothing on the server once the
//     server answers, at the latest 3 s, or the lease if that is shorter, after it was sent.
//  5. Every wait is bounded: a waiter is woken by a message, or looks after about a second.
//  6. First in, first out among the goroutines of one session.
//
// # Not guaranteed
//
// Fairness between processes: whoever tries first after a release has it. A process with many
// goroutines that want the lock passes it on among them, at most 1,024 times or for 20 ms, before
// it lets a waiting process have its chance, and then stands back for 2 ms.
//
// Exclusion when a lease is not honoured: a holder that goes on working after its lease ended,
// for a pause that it did not notice, works beside the next. Tokens are for that. A server
// that loses writes, in a failover or a restart without persistence, may grant the lock
// again while it is held; the holder learns that at its next renewal. signalbox.WaitReplicas grants
// what enough replicas have.
//
// That a message arrives: where it is lost, or the session polls, the next renewal tells of a
// ForceUnlock.
//
// # States
//
// Of a Lock call:
//
//	Entering --carried lease--> entered again, no round trip
//	   | the gate lets it through            | others of the process are before it
//	   v                                     v
//	Contending <------its turn--------- Queued ---passed on---> holding, no round trip
//	   |    ^                                |
//	   |    | message, look                  | context, Close
//	   v    |                                v
//	Tried: held, waits; taken: holding    error, nothing held
//
// Of a hold whose last lease was unlocked:
//
//	Vacated --somebody waits here, budget left--> passed on
//	   |    --somebody waits here, budget used--> the server is asked: go on, or given back
//	   +--------nobody waits here---------------> given back
//
// # Time
//
// A lease counts from before its acquire or renewal was sent, by the monotonic and the wall
// clock, whichever is ahead, less a fiftieth and 2 ms. Keys end by the server's clock, tokens are
// made from it; the clocks of processes are never compared with each other.
//
// # Failure
//
//	event                          holder                          waiters
//	a reply is lost                nothing, or the call is undone  nothing
//	server away                    ErrLost at the deadline         wait on, within their context
//	server restarted empty         ErrLost at the next renewal     woken, one gets the lock
//	process stopped past the lease ErrLost at its first look       one gets the lock
//	key deleted by a stranger      ErrLost at the next renewal     one gets the lock at its next look
//	ForceUnlock                    ErrLost at once, by message     woken, one gets the lock
//	holder crashed                 -                               one gets the lock when the key ends
//
// # Redis
//
// One key, "<prefix>{<name>}:lock", a string that lives as long as the lease, and for a minute
// after a release (WithTokenFloor), to keep the floor of the tokens. One channel,
// "<prefix>{<name>}:lock:unlocked", and one for each session that has held something for 100 ms,
// "<prefix>session:<id>". Scripts reentrant/* and holder/*. Redis 7.0, Valkey 7.2 or newer.
//
// With signalbox.Redisson the key is the name, a hash that lives as long as the lease, the channel
// is "redisson_lock__channel:{<name>}", and the scripts are redisson/*. With signalbox.Fenced there
// is also the counter "redisson_lock_token:{<name>}", which never ends.
//
// An idle name costs about (170 + len(prefix) + len(name)) bytes for d after its last release. d is
// set by signalbox.WithTokenFloor, one minute by default. A service that uses each name only once
// needs that for (names per second) x d names: for 1,000 names a second, with 20 bytes of prefix
// and name, 11 MB.
//
//	uncontended Lock      1 round trip
//	Lock that waits       1 round trip, a message, and 1; one more, and a subscription, where the session did not wait a moment ago
//	entering again        0
//	passed on             0
//	Unlock                1, or 0 where it is passed on or entered still
//	held                  a renewal each third of the lease, 256 locks a script, in a cluster one
//	waiting               1 look a second for each lock, however many wait in the session, and 1 try a message
//	Holder, IsLocked      1
//	ForceUnlock           2
package reentrant
