// SPDX-License-Identifier: Apache-2.0

// Package locktest is the kit of all black-box tests: sessions for a test, calls on other goroutines, the kinds of lock,
// what a lock left on the server, and the length of long runs. Servers and waiting for a condition are in package
// redistest, and the server in virtual time is in test/virtual.
//
// # Guarantees
//
//  1. Nothing here waits for a fixed time.
//  2. Whatever is opened for a test is closed when the test ends, sessions before clients.
//
// # Not guaranteed
//
// A [View] is one moment's: what it read may have changed when a test looks at it.
package locktest
