// SPDX-License-Identifier: Apache-2.0

// Package hold represents a lock that this process holds: its entries, the contexts bound to them, its term at the server, which a
// [Keeper] renews, and how it ends.
//
// # Guarantees
//
//  1. A hold has entries. The acquire makes the first; entering again makes further ones. Each has
//     a Lease of its own. The hold ends with the last entry, in any order.
//  2. Contexts bound to a lease end before the hold is released or handed over.
//  3. An entry that has ended never lives again: its number is not used twice.
//  4. The hold's Owner is notified exactly once of how a tenure ended: by OnRelease when the last entry
//     was released, or by OnLost when the term ended under it. HandOver begins a new tenure.
//  5. Bound contexts cost one registration for each entry and parent that can end, however many
//     contexts are bound. It goes when either ends. So do those of Bonds, which end with something else.
//  6. Losing a hold ends its Done channels on the goroutine that finds it lost, and its contexts on
//     one of their own, so that other holds need not wait for them. After that the Owner is notified.
//
// # States of an entry
//
//	live --- Unlock ---> released    Err is ErrReleased
//	live --- term ends -> lost       Err is why the term ended; Unlock says the same
//
// # Locking
//
// Order: the lock of the queue in the process (internal/waitroom), the hold's, the term's. Neither owners nor
// contexts are called under the hold's lock.
package hold
