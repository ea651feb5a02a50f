// SPDX-License-Identifier: Apache-2.0

// Package mixed asks what holds where one process uses everything at once: every kind of lock, under many names, in
// several sessions that are closed in the midst of it, by callers that lose patience at any moment.
//
// What all kinds share is what is asked here: timers, waiters and requests that are used again, by another kind, under
// another lock. Tests of one kind do not show that.
package mixed
