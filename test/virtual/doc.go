// SPDX-License-Identifier: Apache-2.0

// Package virtual tests what happens in hours: the whole library, from the lock to the wire, against an
// embedded server, in the virtual time of testing/synctest.
//
// # What is exact here
//
// Time does not pass while anything runs, so a test may require to the millisecond what it could only bound
// on a real clock. Connections are pipes; a fault is a pipe that swallows, or is slow.
//
// # How calls end
//
// One table says how every call of the library ends, for every fault of the server and every end of the
// caller's context: which errors it matches, which it must not match, and after what time. If a call is
// added to the library and not to the table, a test fails.
//
// # Not covered
//
// The embedded server is not the real one: its scripts run in another interpreter, and its connections fail
// as pipes do. Package faults repeats against a real server what can be repeated there.
package virtual
