// SPDX-License-Identifier: Apache-2.0

// Package testkit is what module signalboxtest needs of the inside of the library. That module imports no other internal
// package, so what the two modules must agree on is exported here and nowhere else. A service may have a newer library than
// its signalboxtest: names that a release exports here are kept, with their types, and others are added.
//
// # Guarantees
//
//  1. A Grant is a lease like any other: it ends once, by its last Unlock or by Lose, and Done, Err, the contexts of Bind
//     and Enter, and the error of Unlock say why.
//  2. A Grant needs no server, no goroutine and no timer.
package testkit
