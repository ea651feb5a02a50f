// SPDX-License-Identifier: Apache-2.0

// Package proto describes what is at the server: the keys and channels of a name, the format of a hold, and the scripts,
// with a struct for each call and each reply. Primitives get all of it from here, so that the same code speaks several layouts.
// Each kind of lock has a value, [Kind], with what others must know of it.
//
// # Guarantees
//
//  1. Two names never share a key: the encoding is injective. Hashed names share one only if their
//     digests are equal; a hashed and a plain one never do.
//  2. All keys and channels of a name are in one slot of a cluster: the encoded name is the hash
//     tag, has no brace and is never empty.
//  3. A script of one field has the same arguments and replies in every layout, except for those that acquire and release: they
//     belong to the way of waiting, a queue or tries. A layout without floors ignores the argument keep_ms.
//  4. A hold of a layout is never used twice, and names its session.
//
// The first two hold for the library's own naming. A layout of others has its own.
//
// # Not guaranteed
//
// A layout need not have every primitive: the scripts of a missing one are nil, and its New refuses the
// layout.
package proto
