// SPDX-License-Identifier: Apache-2.0

// Package tenure is a lock that is waited for in line, from the grant to the release: what the kinds of locks that
// stand in a line (package line) do alike.
//
// # States
//
//	(none) --Take, Try, Candidate.Begin--> held --the last lease is unlocked--> given back, or handed on
//	                                        |
//	                                        | deadline, MaxHold, gone at the server, Close
//	                                        v
//	                                       lost: given back off the caller's path
//
// A call is counted into the session (Session.Begin) and into its line (Lines.Use) when it begins, and out by
// whatever ends it: the failure of the call, the release, or the loss.
package tenure
