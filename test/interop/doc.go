// SPDX-License-Identifier: Apache-2.0

// Package interop lets Go and Java processes share locks on one server: Redisson as it is published, on the one side
// (test/interop/java, driven by lines), and locks in the layout redisson.Layout on the other.
//
// # Guarantees
//
//  1. docs/redisson-protocol.md says what the Java client does on the server, and which test of this package shows it.
//  2. The tests run against two lines of Redisson, the newest of each.
//
// All tests share one Java process for each line, in which each test has Redisson clients of its own, since
// starting Java takes seconds. A client that dies is cut off at a proxy; two tests kill and stop a process
// of their own.
//
// A client in Python of the default lock (test/interop/python) needs no more than scripts/README.md
// and the headers of its scripts. Its processes share locks with processes in Go.
//
// The tests need what make interop builds and installs, and are skipped without it, unless
// SIGNALBOX_INTEROP is "required".
package interop
