// SPDX-License-Identifier: Apache-2.0

// Package handoff is the queue of one lock inside one process: one goroutine asks the server, and the others wait here
// and are handed what a goroutine before them releases.
//
// # Guarantees
//
//  1. Order: goroutines with the same request are served in the order of their arrival, by what is handed over here and
//     by what the server grants, whoever asked for it. A goroutine that is on its way to the server is passed over for
//     that long.
//  2. A request says how many holds of it a session can have at once. While the session has that many, or asks for the
//     last of them, newcomers wait here and send nothing. So an exclusive lock has at most one hold or one ticket in a
//     session for each request.
//  3. While a goroutine waits, another one asks the server, or the session has as many holds as it can have, or the lock
//     is scarce: the server told the last goroutine that asked to wait. While the session has something scarce, or asks
//     for it, newcomers wait for that, and one of them asks the server 20 ms later. A hold that a goroutine is granted at
//     once ends the scarcity.
//     If the asking one leaves, its ticket goes to another waiter, unless the server has granted it.
//  4. A waiter that only waits for other goroutines is refused at once by Table.Refuse, however long a call takes.
//  5. A goroutine that gives up in the instant in which it is handed something has it.
//
// # Not guaranteed
//
// Order among goroutines with different requests: each request has a ticket of its own, and the server's queue orders
// those. Order among goroutines that ask the server side by side, except for the server's.
//
// # States of a waiter
//
//	from      when                                           to
//
//	idle      it is sent to the server, at once or later     away
//	idle      something is handed, or granted, to it         served
//	idle      waiting is refused                             gone
//	away      it has a ticket                                standing
//	away      its grant arrived, and it is the first         served
//	away      its grant arrived, and another one is first    idle, or away again
//	away      it cannot get a ticket                         gone
//	standing  something is handed, or granted, to it         served: its ticket goes to another, or is left
//	standing  what it waits for is granted, or cannot be     away
//	any       its context ends                               gone: its ticket goes to another, or is left
//
// A goroutine that finds no waiter asks the server itself, and is no waiter before it has a ticket. The last idle waiter
// is sent: it has the longest to wait, so the task changes hands seldom. If each goroutine asks for itself (Request.Own), the
// first one is sent, and the hold and the ticket are its own.
//
// # Ownership
//
// No goroutine runs here: the one that asks the server is its caller's. A Queue has one entry in the timers of its session,
// scheduled only while goroutines wait for something scarce.
//
// # Locking
//
// The lock of a Queue comes before those of holds and of the timers: a hand-over makes a lease under it. Nothing under it calls the server,
// or a context.
package handoff
