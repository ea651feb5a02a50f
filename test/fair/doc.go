// SPDX-License-Identifier: Apache-2.0

// Package fair tests the order and the promises of a fair lock on real servers: with many processes, with
// some that stop or die in the queue, with lost messages, and with servers that go away.
//
// # How the order is known
//
// Every holder makes a note in a log on the server, in the same script that reads the queue: the holder
// of the lock, its token, and the head of the queue. That head must make the next note. So the order is judged
// by what the server did, whatever processes see of it and when.
//
// # Not covered
//
// What depends on time alone, such as when a lost grant is noticed or a dead waiter is skipped, is shown in
// virtual time: test/virtual, fair_*_synctest_test.go and line_*_synctest_test.go.
//
// The tests of every kind of lock are in package faults (each fault at each step), package history
// (histories), and package fencing (tokens before a store).
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package fair
