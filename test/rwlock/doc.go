// SPDX-License-Identifier: Apache-2.0

// Package rwlock tests what only real servers and processes show of a read-write lock: processes that are
// stopped and killed while they hold or wait, a server that restarts or forgets its scripts, and slots that
// move.
//
// # How overlaps are known
//
// Every holder makes a note in a log on the server when it has acquired the lock, and another one before
// it releases it. The first note checks, in the same step, which of the users inside still have a hold, and
// whether one of them excludes the new one: see holderlog_test.go.
//
// # Not covered
//
// What waits for leases, polls and heartbeats is shown in virtual time: package virtual has the order of
// readers and writers, lost messages and holders that crash. Other packages test what all kinds of locks
// have in common: faults each fault at each step, history histories, and fencing tokens before a store.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package rwlock
