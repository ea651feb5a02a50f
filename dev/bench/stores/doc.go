// SPDX-License-Identifier: Apache-2.0

// Stores measures locks beside those of other stores, on servers that it starts itself, and prints one table of
// Markdown: an uncontended pair of Lock and Unlock, the hand-off of a lock that others wait for, and how long a lock
// stays taken whose holder was killed.
//
//	go run . [-short] [-only etcd] [-apart] [-into results.txt]
//
// A store that cannot be started is left out with a line that says why. The servers of etcd and NATS are tools of this
// module, so Go builds them, and Maven fetches that of ZooKeeper. Redis, Valkey, Postgres and java are programs on the
// PATH.
//
// # How it is measured
//
//   - Servers are processes of the system, on the same cores as the clients, unless -apart is set. All run from the start
//     to the end.
//   - A process is a client with connections of its own, inside this program. Holders that are killed are processes of
//     the system, ended by SIGKILL.
//   - Rows take turns over several rounds. Figures are medians over the rounds or, of waits, over all of them.
//   - A hand-off comes 110 ms after the last one. etcd notifies a watch up to 100 ms late if it began less than 100 ms before.
//   - NATS has no lock. Its row is the usual recipe: create a key, watch it, update it to renew it.
//
// # Not measured
//
// Failovers: the columns on what survives say what the store's documentation promises.
package main
