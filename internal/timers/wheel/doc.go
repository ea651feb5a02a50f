// SPDX-License-Identifier: Apache-2.0

// Package wheel is a hashed timing wheel with intrusive entries: it remembers which entry is due at which
// tick, and nothing else. It reads no clock, starts no goroutine and calls no user code; package timers
// drives it on real time.
//
// # Usage
//
// Embed an [Entry] by value in the thing that is timed, call [Entry.Init] once, and move it with
// [Wheel.Schedule] and [Wheel.Cancel]. One goroutine, the driver, calls [Wheel.Advance] with the present
// tick, fires what it returns, and sleeps until [Wheel.Next]. See the package example.
//
// # Guarantees
//
//  1. An entry is collected only by an Advance(now) with now >= tick, where tick is
//     that of its last Schedule: never early.
//  2. It is collected exactly once per scheduling that no later Schedule and no
//     Cancel replaced. Cancel returns true if and only if it prevented that.
//  3. Calling Advance(now) until Next returns a tick after now, or false, collects
//     everything due at now.
//  4. One Advance returns at most [MaxBatch] entries, in the order of their ticks,
//     and holds the lock for a bounded number of entries, however many are due.
//  5. Batches follow each other in the order of ticks too, as long as all due ticks
//     lie within one turn and no entry was scheduled for a tick already passed.
//     An entry that is scheduled during a backlog waits behind it, as long as the
//     driver's now increases, so no entry starves.
//  6. Schedule, Cancel and Len are O(1) and allocate nothing.
//
// # Not guaranteed
//
// Entries with the same tick come in no particular order. After a pause longer than one turn, only the
// entries of one batch are ordered among themselves. A collected entry is no longer pending: cancelling or
// re-scheduling it before the driver fires it does not stop that Fire.
//
// # Time
//
// Ticks are plain integers, negative ones included; the driver decides how long a tick is. A now smaller than
// an earlier one counts as the earlier one. The greatest int64 stands for "none": a tick or a now that great
// counts as one less.
//
// A slot holds all ticks with the same remainder, whatever their turn: an entry keeps its absolute tick and
// is skipped, turn by turn, until it is due.
//
// An entry that is re-scheduled for a later tick is not moved: it stays linked, and moves when the wheel next
// visits its slot. So a lock that renews its lease over and over pays one store per renewal, and the move
// once per slot reached.
//
// # Locking
//
// One mutex guards the wheel and the links and ticks of all its pending entries. It is a leaf: under it
// nothing is called and no other lock is acquired.
package wheel
