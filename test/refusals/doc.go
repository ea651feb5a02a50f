// SPDX-License-Identifier: Apache-2.0

// Package refusals asks what callers, holders and waiters see of a server that refuses: for now, for
// want of a right, or because it has evicted what was held.
//
// # What is tried
//
// Every refusal of docs/refusals.md that one server can be brought to, raised by that server: full memory,
// a disk that cannot be written, replicas that are away, a demotion, loading, a script that runs for
// ever, connections that are refused or no longer have the password, rights that are taken away, pauses.
// For each: TryLock, Lock, a lease that is held, Unlock and a waiter, while the server refuses and after; that
// tokens go on rising, and that nothing is left behind.
//
// # Not covered
//
// CLUSTERDOWN, TRYAGAIN, MOVED and ASK need a cluster, MASTERDOWN a replica that serves no stale data. What becomes of
// their words is tested in internal/wire.
package refusals
