// SPDX-License-Identifier: Apache-2.0

// Package virtual asks what happens in hours: the whole library, from the lock to the wire,
// against an embedded server, in the virtual time of testing/synctest.
//
// # What is exact here
//
// Time stands still while anything runs, so a test may demand to the millisecond what it could
// only bound on a real clock. Connections are pipes; a fault is a pipe that swallows, or is slow.
//
// # How calls end
//
// One table says how every call of the library ends, by what happens to the server and by how the
// caller's context ends: which errors it matches, all others excluded, and after what time. A call
// that is added to the library and not to the table fails a test.
//
// # Not covered
//
// The embedded server is not the real one: its scripts run in another interpreter, and its
// connections fail as pipes do. Whatever is held here is held against a real server in package
// faults as well, where it can be.
package virtual
