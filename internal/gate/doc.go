// SPDX-License-Identifier: Apache-2.0

// Package gate is the queue in front of one lock inside one process: of all goroutines that
// want the lock, one contends at the server and the others wait here, first in, first out.
//
// # Guarantees
//
//  1. At most one goroutine of the process is the contender of a lock, and none while the
//     process holds it.
//  2. Who waits is served in the order of arrival. Who gives up is taken out; if a turn had
//     been given to it in the same instant, Leave says so and it must hand the turn on.
//  3. A hold is passed on at most MaxPasses times or for MaxTime, whichever is first, before
//     the server is asked whether others wait there.
//
// # States
//
//	         Join, Try                Won
//	Idle --------------> Contending ------------> Held ---Pass---> Held
//	  ^   nobody waits    ^   |  ^                  |
//	  +-----Quit----------|---+  |Quit: the head    | Vacate
//	  |                   |      |contends          v
//	  +-----Vacated-------|------+---Vacated-- Releasing
//	  |                   |      the head contends
//	  +-----Lost----------+--------------------- Held
//	     nobody waits        the head contends
//
// Refuse sends the queue away in any state, and changes none.
//
// While Releasing, who comes waits: the release is on its way, and an acquire that overtook
// it would find the lock held and wait at the server for nothing.
//
// # Locking
//
// The gate's lock comes first: a Pass looks at the hold and its term under it. Nothing here
// calls the server, and a turn is a send into a channel that has room for it.
package gate
