// SPDX-License-Identifier: Apache-2.0

// Package history asks whether what clients were told can be explained by one lock that at most
// one of them holds, and whose tokens rise.
//
// Clients take and give back one lock, of each kind, on a real server, each through a wire of its own that loses
// requests and replies; some die. What each was told, and when, is the history, which a checker
// of linearizability holds against a model of a lock.
//
// # What is not known
//
// A call whose reply was lost may have taken the lock, and then lost it again when it was undone:
// two further operations of a client of its own, a ghost, between the call and the end of its
// undoing. A lease that ended without its holder's doing ended somewhere between its beginning
// and the moment at which it was noticed; that of a client that died, before its key did.
//
// The ghosts of a fair lock last for seconds, and may have the lock more than once: what it refuses is not
// judged, since a ghost explains nearly all of it.
package history
