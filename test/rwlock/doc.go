// SPDX-License-Identifier: Apache-2.0

// Package rwlock asks whether a read-write lock keeps its phases and its promises on real servers: with many
// processes, with readers and writers that die as they hold or wait, with messages lost, and with servers that go away.
//
// # How phases are known
//
// Tickets and tokens are both microseconds of the server's clock: a ticket says when somebody got in line, a token when
// the server let somebody in. So how many phases somebody waited for is counted by what the server did, and no
// clock is asked how long that took.
//
// # How overlaps are known
//
// Everybody who is let in makes a note in a book on the server, and another one before it goes. The first looks, in the
// same step, whether anybody is inside whom that would have to keep out, and who has a hold still: see book_test.go.
//
// # Not covered
//
// What is asked of every kind of lock alike: each fault at each step is in package faults, histories in
// package history, tokens before a store in package fencing.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package rwlock
