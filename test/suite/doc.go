// SPDX-License-Identifier: Apache-2.0

// Package suite tests each promise of docs/guarantees.md with each kind of lock in each world.
//
// # The table
//
// A promise is a function of a world and a kind, and a row of Promises. A kind is a row of Kinds: how to acquire it, and
// the facts that callers rely on. A world is servers, processes that use them, and time: virtual time with embedded
// servers, or what the variable SIGNALBOX_WORLDS names: real servers of a topology of redistest, or one endpoint in front of
// several (router, refusing-router). A cell of the table is a promise of a kind in a world. Exact bounds are those of virtual
// time. On real servers a cell says what happens, and that it happens at last.
//
// Processes that are killed and stopped, on servers that restart with their data and in a cluster whose slots move, are a crowd: each
// kind has one, and porcupine judges what its processes say. A storm is a crowd that meets all else that can go wrong, for as long as
// SIGNALBOX_SOAK says: make proof runs it.
//
// A cell that fails prints how to run it alone:
//
//	SIGNALBOX_CELL="P6/waiters die/fair/virtual" go test ./suite -run TestPromises
//
// # A new kind
//
// Add one row to Kinds. A kind with a promise that does not hold for it needs a reason in the row of that promise. Cells for methods
// that its locks do not have (Holder, IsLocked, ForceUnlock, Locker) are left out: make promises shows which.
//
// # Not covered
//
// What only one kind promises is tested beside its code. What the embedded server cannot show is tested in
// test/servers.
package suite
