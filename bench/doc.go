// SPDX-License-Identifier: Apache-2.0

// Bench measures signalbox against other locks for Go on Redis, side by side in one run on
// a server that it starts itself, and prints a table of Markdown for each work.
//
// # Usage
//
//	go run . [-short] [-works uncontended,handoff] [-impl signalbox,limit]
//
// README.md says what each column means, and what the figures do not say.
//
// # Guarantees
//
//  1. Every implementation is handed the same context, one that can be cancelled and has no
//     deadline, the same length of a lease, and a client of its own for each process.
//  2. The implementations take turns over several rounds, each on an emptied server with no
//     other client connected; what is printed are medians over the rounds, and ratios are
//     medians of the ratios within a round, so that a drift of the machine cancels.
//  3. What a round counts begins after a warm-up and ends before the last goroutines are
//     waited for; recording an operation allocates nothing.
//  4. An error of an implementation ends the run: none is counted as an operation.
//
// # Not guaranteed
//
// That absolute figures can be compared with those of another run: server and clients
// share the machine. Processes are clients within this process, which share one Go
// scheduler and one garbage collector.
package main
