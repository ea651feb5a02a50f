// SPDX-License-Identifier: Apache-2.0

// Package faults tests what holders and waiters see, and what is left on the server, when the wire or the
// server fails.
//
// # What is tested
//
// Each kind of fault of a wire, once; servers that are killed, frozen, flushed, or lose their scripts;
// subscriptions that break; keys that other programs delete; sessions that are closed while their locks are
// in use.
//
// # Not covered
//
// Package virtual makes every request fail of acquire, release, renewal, yield and ForceUnlock of every kind
// of lock, in virtual time. It also shows when a waiter has the lock though its message is lost, when a
// holder is notified that its wire is dead, and how long a Close takes then. Package fair has the order of
// a queue; it and package crash have processes that stop or die. Package fencing has the effects of a lost
// lease on what the lock protects.
package faults
