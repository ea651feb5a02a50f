// SPDX-License-Identifier: Apache-2.0

// Package kit is what the suites of this module share: the kinds of lock, sessions for a test, a look at
// what a lock left on the server, waiting for a condition, and the length of long runs.
//
// # Guarantees
//
//  1. Nothing here sleeps for a fixed time: Await returns as soon as its condition holds.
//  2. Whatever is opened for a test is closed when the test ends, sessions before clients.
//
// # Not guaranteed
//
// The view of the server is one moment's: what is read may have changed when it is looked at.
package kit
