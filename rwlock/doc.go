// SPDX-License-Identifier: Apache-2.0

// Package rwlock is a read-write lock across processes: many readers, or one writer. Neither side starves, readers of one
// process share a hold, and a writer can become a reader without letting anybody write in between.
//
// # Usage
//
// See the examples. Lock, TryLock, Do and Locker are the writer's, RLock, TryRLock, RDo and RLocker the reader's.
//
// # Guarantees
//
//  1. Exclusion: while leases are honoured, a writer of a name is alone, in any process.
//  2. Order, by phases. Writers come in the order in which the server took in their calls. A writer that waits closes
//     the door for readers that come later, so it waits for one phase of readers at most; all readers that wait when a
//     writer is done come in together, before the next writer, so they wait for one writer at most. The door opens
//     again when the writer that waits gives up, and within 3 s and a second when its process dies.
//  3. The holder knows: a lease ends here before its hold can end on the server; the first look
//     after a pause tells. ForceUnlock is told by message, at once. What else somebody did to the key is told by
//     the next renewal, a third of the lease later at most. Every reader's hold has an end of its own, which its own session renews.
//  4. Fencing: every lease has a token. A writer's is greater than those of all who had the lock before it, readers
//     included; a reader's is greater than those of all writers before it. Readers that share a hold share a token.
//  5. No leak: a call that answered an error leaves neither ticket nor hold on the server once
//     the server answers, at the latest 3 s after it was sent.
//  6. Every wait is bounded: a waiter is let in by the very script that makes room, and told by a message; where that
//     is lost it finds out about a second later. Waiters that died, however many, delay nobody by more than 3 s, for as
//     long as they count as living, and a second. A reader that crashed delays a writer by its own lease.
//
// # Not guaranteed
//
// An upgrade: a reader that asks to write gets ErrUpgrade.
//
// A door that closes at once: readers of a session enter beside each other for up to 20 ms after it got the lock, or last
// heard that no writer waits. They belong to the phase of readers that the writer waits for.
//
// A second lease for a reader that does not say that it has one: whoever calls RLock without the context of its lease
// stands behind a writer that waits, who waits for it. With that context (Lease.Enter, RDo) it enters again.
//
// A place for those who are not heard of for 3 s, exclusion when a lease is not honoured, and what a server that loses
// writes does to it: as in package fair.
//
// # States
//
// Of an attempt at the server: entering, in line, granted; see package line. Of the lock there:
//
//	free -------- a reader enters ------> reading -- the last reader leaves, no writer waits --> free
//	reading ----- the last reader leaves, a writer waits ------------------------------------> writing
//	free -------- a writer enters ------> writing -- the writer leaves, nobody waits ---------> free
//	reading ----- the writer that waits leaves or dies: readers in line come in --------------> reading
//	writing ----- the writer leaves, or Downgrade: readers in line come in -------------------> reading
//	writing ----- the writer leaves, only writers wait ---------------------------------------> writing
//
// Of the readers of one session, who share a hold (the room):
//
//	empty --a reader comes--> led: it asks for all, the others wait for it
//	led --granted--> open: those who wait, and for 20 ms all who come, enter without the server
//	led --the leader's context ended--> led by the next who waits, in the same place in line; or empty
//	led --refused--> that is the leader's error; the next leads, or empty
//	led --Close--> empty: those who wait are told at once, the leader when its call is over
//	led --TryRLock that leads finds it held--> the next leads, or empty; one that comes to a room that is led asks alone
//	open --20 ms are over, a reader comes--> led: it asks whether a writer waits
//	led --no writer waits--> open
//	led --a writer waits--> led: the old hold goes on for those who have it, the leader gets in line for a new one
//	open --the last reader leaves, or the hold is lost--> empty
//
// # Time
//
// As in package fair. Readers that share a hold share its deadline and its renewals.
//
// # Failure
//
//	event                          holders                         waiters
//	a reply is lost                nothing, or the call is undone  nothing: the place is kept
//	a grant's message is lost      -                               found by the next look
//	server away                    ErrLost at the deadline         wait on, within their context
//	server restarted empty         ErrLost at the next renewal     form new lines
//	process stopped past the lease ErrLost at its first look       come in
//	waiter stopped for over 3 s    -                               it is passed over, and comes back
//	key deleted by a stranger      ErrLost at the next renewal     come in at the next look
//	ForceUnlock                    ErrLost at once, by message     come in
//	reader crashed                 -                               a writer comes in when that hold ends
//	writer crashed                 -                               come in when its hold ends
//	waiting writer crashed         -                               readers come in within 3 s and a look
//
// # Redis
//
// Four keys. "<prefix>{<name>}:lock" is the holder key of every kind of lock, here a sorted set
// with a member for each hold. ":writers" and ":readers" are sorted sets with a member for each
// waiter. ":rwlives" is a hash with a field for each session. The last three expire ten minutes
// after their last use. Grants are published on "<prefix>grants:<session>", in a cluster on
// "<prefix>{<name>}:grants:<session>". Each session that has held something for 100 ms also listens
// on "<prefix>session:<session>" for a ForceUnlock. Scripts rwlock/*, holds/*, line/beat and
// holder/describe. Redis 7.0, Valkey 7.2 or newer.
//
// An idle name costs about (170 + len(prefix) + len(name)) bytes for d after its last release. d is
// set by signalbox.WithTokenFloor, one minute by default. A service that uses each name only once
// needs that for (names per second) x d names: for 1,000 names a second, with 20 bytes of prefix
// and name, 11 MB. A name with waiters also keeps ":rwlives" for ten minutes after the last wait:
// about 230 bytes, and 80 more for each further session that waited.
//
//	uncontended Lock, RLock   1 round trip
//	RLock beside a reader     0; once in 20 ms 1
//	either that waits         1 round trip and a message; a look more where the session did not wait a moment ago
//	entering again            0
//	Unlock                    1, which lets in whoever comes next; 0 where others share the hold
//	Downgrade                 1
//	held                      a renewal each third of the lease, 256 locks a script, in a cluster one
//	waiting                   1 look a second for each lock, however many wait in the session
//	IsLocked                  1
//	Holders                   1 for 100 of them
//	ForceUnlock               2 for 100 of them
//
// With signalbox.Redisson the keys are those of the Java client's RReadWriteLock, docs/redisson-protocol.md, and its rules hold: there are no phases,
// readers come in beside readers, and a writer comes in when nobody reads. Release costs what Redisson's does: the more, the more readers there are.
// Readers beside Java's must not have leases longer than Java's lockWatchdogTimeout, 30 s unless it is set: its renewal makes the lock end after that
// time, whoever reads. MaxHold bounds a hold as a long FixedLease would.
//
// The phases are those of the phase-fair locks of Brandenburg and Anderson (Spin-Based Reader-Writer Synchronization for
// Multiprocessor Real-Time Systems, 2010).
package rwlock
