// SPDX-License-Identifier: Apache-2.0

// Package crash tests what processes leave behind that stop or die while they hold locks.
//
// Processes are children of the test, which it stops with SIGSTOP and kills with SIGKILL. They hold every
// kind of lock. Faults of the wire are in package faults.
//
// # Testing
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
package crash
