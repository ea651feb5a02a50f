// SPDX-License-Identifier: Apache-2.0

// Package history tests whether the results that clients got can be explained by one lock with at most one
// holder at a time, and with rising tokens.
//
// Clients acquire and release one lock, of each kind, on a real server, each through a connection of its own
// that loses requests and replies; some die. The results of each, with their times, are the history, which a
// checker of linearizability compares with a model of a lock.
//
// # What is not known
//
// A call whose reply was lost may have acquired the lock, and lost it again when the call was undone: two
// further operations of a client of its own, a ghost, between the call and the end of its undoing. A lease
// that its holder did not end ended between its beginning and the moment at which the end was noticed; that
// of a client that died, before its key did.
//
// The ghosts of a fair lock last for seconds, and may have the lock more than once. So its refusals are not
// judged, since a ghost explains nearly all of them.
package history
