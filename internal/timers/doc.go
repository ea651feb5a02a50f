// SPDX-License-Identifier: Apache-2.0

// Package timers has what the library knows of time: it fires a [Timer] when its delay is over, with one goroutine and one hashed
// [Wheel] for any number of timers, and an [Instant] is a moment on two clocks.
//
// # Usage
//
// Embed a [Timer] in the thing that is timed, Init it with the [Firer] to be called, then call [Timers.Schedule]
// and [Timers.Cancel] as often as needed. See the package example.
//
// # Guarantees
//
//  1. Fire is called no earlier than the delay of the scheduling it belongs to. The time in
//     which the host was suspended counts.
//  2. Fire is called once per scheduling that no later Schedule and no Cancel replaced.
//  3. After Cancel returned true, Fire is not called for the scheduling it cancelled.
//  4. Fires never overlap: one goroutine calls them one after the other, with no lock
//     held. Schedule and Cancel may be called from Fire.
//  5. After Close has returned, no Fire runs or will run.
//  6. While nothing is scheduled there is no goroutine, or one that ends within 400 ms. It
//     never wakes tick by tick.
//  7. Schedule for later than the goroutine sleeps anyway, and Cancel, neither wake
//     it nor allocate.
//  8. What came due while the host was suspended fires within 420 ms after it resumes.
//
// # Not guaranteed
//
// How late a Fire may be: the Go scheduler, a paused process and the Fires before it all delay it.
//
// A Fire must not block: every other timer of the same Timers waits for it. It must not call [Timers.Close],
// which waits for it.
//
// A Cancel that returns false, and a Schedule of a timer at the moment it is due, may be overtaken by a Fire
// that is already on its way. A Fire must check the state of its owner under the owner's lock.
//
// # Time
//
// A tick is one millisecond since New. Delays are rounded up to the next tick, so a timer fires up to one
// tick after its delay, and timers within one tick share a wake-up. Times come from the monotonic clock, which
// stands still while a host is suspended. So the goroutine compares it with the wall clock each time it wakes,
// and wakes every 400 ms for that. If the wall clock went further, that much time has passed for all timers
// (compareClocks). A Fire that checks the monotonic clock itself may then find that it is early.
//
// # Failure
//
//	event                what happens
//	process paused       everything due meanwhile fires at once, oldest first, in
//	                     batches
//	host suspended       the same; OnSuspended is called first
//	wall clock forward   the same: nothing distinguishes the two
//	wall clock back      nothing
//	a Fire panics        the process ends, as with any goroutine
//	Schedule after Close ignored
//
// # Locking
//
// Timers.mu guards the life of the goroutine. Order: Timers.mu, then the wheel's lock. Schedule acquires them
// one after the other, Timers.mu only if the goroutine must be started or woken. A Fire is called with
// neither held, so both come after any lock that callers hold while they call Schedule or Cancel. Close must
// not be called with a lock held that a Fire acquires.
//
// # Goroutine
//
// Schedule starts it when the wheel has an entry and no goroutine runs, it ends itself when it wakes to an
// empty wheel, and Close ends it and waits. While it sleeps it has the pprof label signalbox=timers; the
// goroutines that a Fire starts do not.
package timers
