// SPDX-License-Identifier: Apache-2.0

// Package waitroom is the queue of one lock inside one process: one goroutine asks the server, and the others wait here. Each call
// is an Acquisition, which its caller drives: the package calls tickets, and nothing that began the call.
//
// The SharePolicy of a ShareKey says what happens to a hold that a goroutine got: it is handed over when it is released, or it
// stays with the goroutine, or all waiting goroutines share it.
//
// # Guarantees
//
//  1. Order: goroutines with the same key are served in the order of their arrival, by what is handed over here and
//     by what the server grants, whichever of them asked. A goroutine that is on its way to the server is passed over for
//     that long. Goroutines that share a hold are served together.
//  2. A key says how many holds a session can have at once. While the session has that many, or asks for the
//     last of them, newcomers wait here and send nothing. So an exclusive lock has at most one hold or one ticket in a
//     session for each key.
//  3. While a goroutine waits, another one asks the server, or the session has as many holds as it can have, or the lock
//     is scarce: the last goroutine that asked the server had to wait. While the session has a scarce hold, or asks
//     for one, newcomers wait for that, and one of them asks the server 20 ms later. A hold that a goroutine is granted at
//     once ends the scarcity.
//     If the asking one leaves, its ticket goes to another waiter, unless the server has granted it.
//     If holds are not handed over (Own, Shared) one goroutine asks at a time, and no hold is waited for: when that
//     one has what it asked for, or gives up, the next one asks at once.
//  4. A waiter that only waits for other goroutines is refused at once by Table.Refuse, however long a call takes.
//  5. TicketSource.Admit decides how many goroutines may wait, also those that have tickets of their own. A
//     goroutine that it refuses has sent nothing.
//  6. A goroutine that gives up in the instant in which a hold is handed to it has the hold.
//  7. A shared hold is joined without the server for 20 ms from its grant. After that one goroutine asks whether it may be
//     shared further, and the others wait for the reply. If it may, they all join it, and the 20 ms count from the
//     question. If not, or if there is no reply, the hold stays with the goroutines in it, and one waits for another hold.
//  8. A hold that no goroutine wants may be kept (HandOverOrKeep): one in a Room. It is used by the next call with its key,
//     or ended, once: by a call that cannot use it, which asks the server after the reply, by its timer, by a recall, or by
//     the caller of TakeIdle. If NextLease refuses it, the call asks the server for it first (Confirm), as the goroutine that uses it: all that
//     come meanwhile wait for that.
//
// # Not guaranteed
//
// Order among goroutines with different keys: each key has a ticket of its own, and the server's queue orders
// those. Order among goroutines that ask the server side by side, except for the server's.
//
// # States of a waiter
//
//	from      when                                           to
//
//	idle      it is sent to the server, at once or later     requesting
//	idle      a hold is handed or granted to it, or shared   served
//	idle      waiting is refused                             gone
//	requesting  its ticket is in the server's queue            joined
//	requesting  its grant arrived, and it is the first         served
//	requesting  its grant arrived, and another one is first    idle, or requesting again
//	requesting  it cannot get a ticket                         gone
//	joined    a hold is handed or granted to it, or shared   served: its ticket goes to another, or is left
//	joined    its ticket is granted, or cannot be            requesting
//	any       its context ends                               gone: its ticket goes to another, or is left
//
// A goroutine that finds no waiter asks the server itself, and is no waiter before it has a ticket. The last idle waiter
// is sent: it has the longest to wait, so the task changes hands seldom. If each goroutine asks for itself (Own), the
// first one is sent, and the hold and the ticket are its own.
//
// # No waiter is forgotten
//
// What an idle waiter waits for may never come: the hold is lost, or the goroutine that asks fails, gives up, or is refused by
// Close. So one of these is true while an idle waiter waits, whenever the lock of its Room is free:
//
//   - A goroutine asks the server for the same key (directRequests, waiterRequests). It ends that on every path, whatever it was
//     granted, by endDirectRequest, EndTry, endRequest or quit. If its context ends, or the session closes, its call returns.
//   - The session has as many holds as it can have (isFull). A hold that is unlocked is handed over or ends, a hold that is
//     lost ends, and a hold that is replaced by one of fewer permits ends: Room.HoldEnded.
//     No goroutine waits for a hold that stays idle: the call that would be the first waiter uses it, or ends it.
//   - Waiters wait for a scarce hold, and the timer is scheduled (sendScheduled).
//
// Every step that ends one of them calls sendIfNeeded under the lock, which makes another one true: it sends a waiter, at once
// unless the session has a scarce hold left, or schedules the timer. The timer sends a waiter unless the first or the second is true
// by then. A waiter becomes idle in joinWaitlist or deliver, which call sendIfNeeded as well. A waiter that leaves, or is served,
// ends nothing that others wait for. All of this is about equal keys: no goroutine waits in the process for a hold with
// another key.
//
// The timers of a session end only after Refuse, which ends the wait of each idle waiter. None comes later, since joinWaitlist asks
// TicketSource.Admit under the lock.
//
// So a semaphore's waiter waits for a scarce hold for 20 ms at most before a goroutine of its session asks the server,
// whatever happens to the hold. A lock has a MaxHolds of one, so that scarcity changes nothing for it: its waiters wait for
// the session's hold or ticket. Holds that are not handed over are not scarce either: their waiters wait for a goroutine
// that asks, the first of the three.
//
// # Ownership
//
// The goroutine that asks the server is its caller's. One of its own runs only while the last goroutine in a shared hold leaves it
// because the hold may not be shared further: a caller whose context ends does not wait for the release. A Room has one entry in
// the timers of its session, scheduled only while goroutines wait for a scarce hold, and another one while it has kept a hold. The
// release of an idle hold runs on a goroutine of its own, which ends with it: the session counts the hold until then.
//
// # Locking
//
// The lock of a Room comes before those of holds, of their terms, of the timers, and of the server's queues: a hand-over makes a lease
// under it, and KeptHold.MayKeep asks whether a recall has come. Nothing under it calls the server, or a context.
package waitroom
