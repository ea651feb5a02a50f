// SPDX-License-Identifier: Apache-2.0

// Package topologies asks of every primitive what is plain to ask: that it locks, waits, wakes,
// renews and leaves nothing, on every way to run servers and in both versions of the protocol.
//
// # What is tried
//
// Every promise of the suite, on a single server, behind TLS, behind TLS that asks for
// certificates, on a primary under sentinels, and on a cluster of six nodes. Each of these is
// started once, when the first test asks for it, and is shared: names keep the tests apart. A primitive joins by one
// line in package locktest. Semaphores join as locks of one permit, and once with many.
//
// # Not covered
//
// Nothing fails here: no server dies, no slot moves. A stalled machine must not seem to be a dead
// primary either, so nodes and sentinels are patient.
package topologies
