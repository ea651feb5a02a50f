// SPDX-License-Identifier: Apache-2.0

// Package servers tests what only real servers, and processes of their own, show. The prefix of a file says what it is about:
//
//   - kind: what all kinds cost, and that replicas have their holds
//   - refusals: what a server refuses, whatever the reason
//   - rights: that the rights of docs/security.md are enough, and each that is missing is reported
//   - clocks: servers whose clocks are wrong or are set, by libfaketime; skipped without it unless SIGNALBOX_FAKETIME is "required"
//   - endpoint: one endpoint in front of several shards
//   - failover: servers that die, stop and move slots while locks are held, waited for and released
//   - latch, members, multilock: processes of a latch and of a group of shards that are killed and stopped, slots that move, nodes
//     that die between two members
//
// What waits for leases, polls and heartbeats is in test/virtual, and each promise of all kinds in test/suite.
package servers
