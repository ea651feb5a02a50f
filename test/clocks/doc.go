// SPDX-License-Identifier: Apache-2.0

// Package clocks tests locks under wrong server clocks: one server whose clock is not the clients', and a
// quorum whose servers differ by minutes.
//
// The servers are real ones; libfaketime shifts their wall clocks. Without it the tests are skipped, unless
// SIGNALBOX_FAKETIME is "required".
//
// # Not covered
//
// A clock that steps while a lock is held: package virtual tests that, without a real server.
package clocks
