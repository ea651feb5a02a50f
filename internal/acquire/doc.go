// SPDX-License-Identifier: Apache-2.0

// Package acquire implements a lock from the request to the release, once for every kind of lock.
//
// A Source does the waiting: the server's queue (package queue), or retries without a queue (package
// retry). A primitive chooses its Source with the table of its kind in package layout, and otherwise does
// not see the difference.
//
// # States
//
//	                                        the last lease is unlocked, and a local goroutine waits
//	                                        +--------+ for the same request: handed over (pass.go)
//	                                        v        |
//	(none) --Take, Try, Candidate.Begin--> held --the last lease is unlocked--> released, or handed over
//	                                        |
//	                                        | deadline, WithMaxHold, gone at the server, Close
//	                                        v
//	                                       lost: released off the caller's path
//
// A call is counted in the session (Session.Begin) and in its queue (Source.Use) when it begins. Whatever
// ends it uncounts it: the failure of the call, the release, or the loss.
package acquire
