// SPDX-License-Identifier: Apache-2.0

// Etcd measures package election beside etcd's concurrency.Election, on servers that it starts itself, and prints
// tables of Markdown: how long a group has no leader, and what elections cost a server.
//
//	go run . [-short]
//
// It needs redis-server and etcd on the PATH. Without etcd it prints one line and measures nothing.
//
// # How it is measured
//
//   - A process is a client and a session of its own. Leaders that crash are operating-system processes, ended by
//     SIGKILL; all other processes are clients within this one.
//   - Each server runs twice: with its data in memory only, and with each write flushed to the disk before the reply, which
//     is etcd's default. Redis in memory is the server that most services have; etcd in memory is for comparison.
//   - A hand-off comes 110 ms after the last one. etcd notifies a watch up to 100 ms late if it began less than 100 ms before.
//   - Both sides take turns, on servers without other clients.
//   - A request is a message from a client: what Redis counts as a command that no script called, and what etcd counts as
//     a message that it received.
//
// # Not measured
//
// What a quorum of three etcd servers costs: it is one server. What a failover costs.
package main
