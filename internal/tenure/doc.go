// SPDX-License-Identifier: Apache-2.0

// Package tenure is a lock from the grant to the release: what the kinds of locks do alike that are waited for by a
// Source, a line (package line) or a contest (package contest).
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
package tenure
