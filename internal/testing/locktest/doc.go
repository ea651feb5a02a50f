// SPDX-License-Identifier: Apache-2.0

// Package locktest is the kit of all black-box tests: sessions for a test, calls on other goroutines, the
// kinds of lock, what a lock left on the server, and the length of long runs. Servers and waiting for a
// condition are in package redistest, and the server in virtual time is in test/virtual.
//
// # Guarantees
//
//  1. Nothing here waits for a fixed time.
//  2. Sessions and clients that are opened for a test are closed when the test ends, sessions before clients.
//
// # Not guaranteed
//
// A [View] shows one moment: what it read may have changed when a test uses it.
package locktest
