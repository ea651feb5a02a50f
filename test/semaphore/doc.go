// SPDX-License-Identifier: Apache-2.0

// Package semaphore asks whether a semaphore keeps its promises on real servers: with many processes, some of which
// are killed or stop, with servers that fail over, and with slots that move. Faults of wires are in test/virtual.
//
// # How the count is known
//
// A checker asks the server, in one step, for the sum of the permits of all holds that have not ended, and for the
// capacity, again and again while the others work. So the count is judged by what the server says, whatever
// processes see of it and when.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package semaphore
