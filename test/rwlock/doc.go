// SPDX-License-Identifier: Apache-2.0

// Package rwlock tests what only real servers and processes show of a read-write lock: processes that are stopped and killed
// while they hold or wait, a server that restarts or forgets its scripts, and slots that move.
//
// # How overlaps are known
//
// Everybody who is let in makes a note in a book on the server, and another one before it goes. The first looks, in the
// same step, whether anybody is inside whom that would have to keep out, and who has a hold still: see book_test.go.
//
// # Not covered
//
// What waits for leases, polls and heartbeats is shown in virtual time: the order of readers and writers, lost messages and
// holders that crash are in package virtual. What is asked of every kind of lock alike is elsewhere: each fault at each step in
// package faults, histories in package history, tokens before a store in package fencing.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package rwlock
