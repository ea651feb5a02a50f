// SPDX-License-Identifier: Apache-2.0

// Package clocks tests locks under wrong server clocks: one server whose clock is not the clients', one whose clock is
// set while a lock is held, and a quorum whose servers differ by minutes.
//
// The servers are real ones; libfaketime shifts their wall clocks. Without it the tests are skipped, unless
// SIGNALBOX_FAKETIME is "required".
package clocks
