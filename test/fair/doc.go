// SPDX-License-Identifier: Apache-2.0

// Package fair asks whether a fair lock keeps its order and its promises on real servers: with many
// processes, with some that stop or die in line, with messages lost, and with servers that go away.
//
// # How the order is known
//
// Every holder makes a note in a book on the server, in one step with a look at the line: who holds the
// lock, with which token, and who stands first in line. The next note must be that one's. So
// the order is judged by what the server did, whatever processes see of it and when.
//
// # Not covered
//
// What depends on time alone, such as when a lost grant is noticed or a dead waiter is passed over, is shown in virtual time:
// test/virtual, fair_*_synctest_test.go and line_*_synctest_test.go.
//
// What is asked of every kind of lock alike: each fault at each step is in package faults, histories in
// package history, tokens before a store in package fencing.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package fair
