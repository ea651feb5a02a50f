// SPDX-License-Identifier: Apache-2.0

// Package countdown asks what becomes of the rounds of a latch when processes are killed, servers restart, and slots
// move. What a fault of a wire does to each request of a round is asked in test/virtual.
package countdown
