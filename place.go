// SPDX-License-Identifier: Apache-2.0

package signalbox

// Place says where a lock is in the order in which package multilock acquires its members: by the slot
// that its key has in a cluster, or would have in one, and then by the key. The locks' method Place
// returns it. The zero Place belongs to no lock.
type Place opaquePlace
