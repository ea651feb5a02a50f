// SPDX-License-Identifier: Apache-2.0

// Package clocks asks what becomes of locks where the clocks of servers are wrong: of one server whose clock is not the clients', and
// of a quorum whose servers tell times that are minutes apart.
//
// The servers are real ones, whose wall clocks run beside the machine's by libfaketime. Without it the tests are skipped, unless
// SIGNALBOX_FAKETIME is "required".
//
// # What is not known
//
// What a clock does that steps while a lock is held: package virtual has that, and without a real server.
package clocks
