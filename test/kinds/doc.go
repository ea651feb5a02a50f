// SPDX-License-Identifier: Apache-2.0

// Package kinds tests on a real server what all kinds of lock have in common: each test states one behaviour, and runs for
// every kind that has it.
//
// # Kinds
//
// A kind is a row of the table in kind_test.go: the locks of packages reentrant and fair, both sides of package rwlock, a
// semaphore of one permit, and the reentrant and the fair lock in the layout of Redisson. The row is data: the names of its
// operations, its keys, and whether a holder can enter it again.
//
// # Not covered
//
// What only one kind has is tested in its own package. What waits for leases, polls and heartbeats is in package virtual,
// and each fault at each step is in package suite.
package kinds
