// SPDX-License-Identifier: Apache-2.0

// Package scripts holds the Lua that signalbox runs inside the server: one file for every
// script and version, and the parts that scripts include by name.
//
// Use it to write a client in another language, or to see what runs at a server. Programs use the
// packages of the locks.
//
// # Guarantees
//
//  1. A released script never changes: its digest stands in testdata/digests.txt, which only
//     grows. A change is the next version, in a file of its own, because services of two
//     releases run side by side on the same keys.
//  2. The digest is that of the text with its parts, as the server gets it: what SCRIPT EXISTS
//     takes and SLOWLOG shows. "go run ./scripts/print lock/enter" prints that text.
//  3. Every file begins with a header that says what KEYS and ARGV are, what it returns and
//     does, and what it costs; a test holds the header to the body.
//  4. TIME, the server's, is the only clock in a script.
//  5. A script that creates state takes a not-after and writes nothing when it is over, so
//     that a copy which was delayed on its way cannot take effect long after its sender gave up.
//
// Programs do not need this package: the locks send their scripts themselves. It is for people who
// want to know what runs in a server, by the digests that SLOWLOG and SCRIPT EXISTS show. README.md
// in this folder has the layout of the keys and the rules for a new version.
package scripts
