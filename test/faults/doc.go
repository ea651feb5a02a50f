// SPDX-License-Identifier: Apache-2.0

// Package faults asks what holders and waiters see, and what stays on the server, when the
// wire or the server fails.
//
// # What is tried
//
// Each kind of fault of a wire, once; servers killed, frozen, flushed, without their scripts; subscriptions that break; keys taken
// away by others; sessions closed in full use.
//
// # Not covered
//
// Package virtual strikes every request of acquire, release, renewal, yield and ForceUnlock of every kind of lock, in virtual
// time. It also shows when a waiter has the lock though its message is lost, when a holder is notified that its wire is dead, and
// how long a Close takes then.
// The order of a line is in package fair, processes that stop or die are there and in package crash,
// the effects of a lost lease on what the lock protects in package fencing.
package faults
