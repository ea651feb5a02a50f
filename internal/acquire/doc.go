// SPDX-License-Identifier: Apache-2.0

// Package acquire is a lock from the request to the release, once for all kinds that are waited for by a Source: the
// server's queue (package queue), or trying without one (package contend). A primitive asks for it by the table of its
// kind in package layout, and knows no difference.
//
// # States
//
//	                                        the last lease is unlocked, and the like is waited for here:
//	                                        +--------+ it is passed on (pass.go)
//	                                        v        |
//	(none) --Take, Try, Candidate.Begin--> held --the last lease is unlocked--> given back, or handed on
//	                                        |
//	                                        | deadline, MaxHold, gone at the server, Close
//	                                        v
//	                                       lost: given back off the caller's path
//
// A call is counted into the session (Session.Begin) and into its queue (Source.Use) when it begins, and out by
// whatever ends it: the failure of the call, the release, or the loss.
package acquire
