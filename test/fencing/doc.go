// SPDX-License-Identifier: Apache-2.0

// Package fencing asks whether work under a lock, of whatever kind, is ever lost.
//
// Clients in this process and in others read a counter, add one and write it back under a lock
// whose lease is short, while processes are stopped past their lease and killed. The store that
// has the counter refuses tokens smaller than the greatest it has seen, on reading as well: else
// a holder who lost its lease could still write between a successor's reading and writing.
//
// The control is in test/virtual: TestTokensKeepALateHolderFromOverwriting shows that a store which takes every token loses
// an update.
package fencing
