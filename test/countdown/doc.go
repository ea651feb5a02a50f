// SPDX-License-Identifier: Apache-2.0

// Package countdown asks what becomes of the rounds of a latch when processes are killed, servers restart, wires
// are cut at every step, and slots move.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package countdown
