// SPDX-License-Identifier: Apache-2.0

// Package refusals tests what callers, holders and waiters see of a server that refuses: for now, for want
// of a right, or because it has evicted a held key.
//
// # What is tested
//
// Every refusal of docs/refusals.md that a single server can be brought to, raised by that server: full
// memory, a disk that cannot be written, missing replicas, a demotion, loading, an endless script, refused
// connections, a changed password, rights that are taken away, pauses. For each the tests call TryLock,
// Lock and Unlock, keep a lease and a waiter, while the server refuses and afterwards. Tokens must continue
// to rise, and nothing may be left behind.
//
// What sessions learnt when they connected first also changes behind them: passwords, files, certificates, rights, the
// server of an address. Leases, a waiter, a term and shards must survive that.
//
// # Not covered
//
// CLUSTERDOWN, TRYAGAIN, MOVED and ASK need a cluster, MASTERDOWN a replica that serves no stale data.
// internal/wire tests what these replies become.
package refusals
