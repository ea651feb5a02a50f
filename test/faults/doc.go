// SPDX-License-Identifier: Apache-2.0

// Package faults asks what holders and waiters see, and what stays on the server, when the
// wire or the server fails.
//
// # What is tried
//
// Every step of every way to acquire each kind of lock (kind_test.go), with every fault of the wire and
// with the end of the caller's context (sweep_test.go); replies lost after acquire, renewal and release; servers
// killed, frozen, flushed; subscriptions that break; keys taken away, by strangers and by ForceUnlock, whose own steps are
// struck as well; sessions closed in the middle of it.
//
// # Not covered
//
// When a waiter has the lock though its message is lost, when a holder is told that its wire is dead, and how long a Close takes
// then, is shown in virtual time, in package virtual.
// The order of a line is in package fair, processes that stop or die are there and in package crash,
// the effects of a lost lease on what the lock protects in package fencing.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package faults
