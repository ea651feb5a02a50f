// SPDX-License-Identifier: Apache-2.0

// Package acquire implements a lock from the request to the release, once for every kind of lock.
//
// A Manager has what a session keeps for one kind of lock. It makes its tickets in the server's queue
// (package queue), or retries without a queue. A primitive chooses between the two with the table of
// its kind in package proto, and otherwise does not see the difference.
//
// The package stands above the root package signalbox, and imports it: what primitives share takes the public sessions
// and options, and returns the public leases and errors, so the conversions are written once, here.
//
// # States
//
//	                                        the last lease is unlocked, and a local goroutine waits
//	                                        +--------+ with the same share key: handed over (turn.go)
//	                                        v        |
//	(none) --Acquire, TryAcquire---------> held --the last lease is unlocked--> released, or handed over
//	                                        |
//	                                        | deadline, WithMaxHold, gone at the server, Close
//	                                        v
//	                                       lost: released off the caller's path
//
// # A free lock, by function
//
//	reentrant.Lock.Lock               the public call, whose errors it explains
//	Exclusive.Acquire                 options of the call; re-entry, if the context has a lease
//	Acquirer.Acquire, acquireOnce     counts the call, and takes a seat in the queue of this process
//	waitroom.Acquisition.Await        no other goroutine asks for the lock, so this one asks the server
//	queue: Ticket.Join, sendEnter     an attempt with a fresh id; the arguments of lock/enter
//	wire.Runner.Run                   sends the script, and says what became of the call
//	                                  the reply: handleEnterReply makes a Grant of its stamp
//	QueuedTicket.Granted, beginHold   the grant becomes a hold with a term; the first token is the stamp
//
// A call is counted in the session (Session.Begin) and in its queue when it begins. Whatever
// ends it uncounts it: the failure of the call, the release, or the loss.
package acquire
