// SPDX-License-Identifier: Apache-2.0

// Package redlock asks whether a quorum of servers gives a lock to one at a time, and with tokens that rise: the arithmetic of
// votes and validity against a model of servers, and processes on five real servers that are cut off, stopped and emptied in turn.
//
// Tests named TestSoak... run for as long as SIGNALBOX_SOAK says, and are skipped without it.
//
// # What is not known
//
// Whether a holder that does not check its lease overlaps with the next: a span counts from the return of Lock to a
// check of the lease that found it good.
package redlock
