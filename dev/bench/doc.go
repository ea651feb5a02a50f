// SPDX-License-Identifier: Apache-2.0

// Bench measures signalbox against other Go locks on Redis, side by side in one run on
// a server that it starts itself, and prints a table of Markdown for each work.
//
// # Usage
//
//	go run . [-short] [-works uncontended,handoff] [-impl signalbox,limit] >run.txt
//	go run . -into results.txt <run.txt
//
// results.txt says what each column means, and docs/benchmarks.md what the figures do not say.
//
// # Guarantees
//
//  1. Every implementation gets the same contexts, one for each call with a deadline of a
//     minute, the same length of a lease, and a client of its own for each process.
//  2. The implementations take turns over several rounds, each on an emptied server with no
//     other client connected; what is printed are medians over the rounds, and ratios are
//     medians of the ratios within a round, so that a drift of the machine cancels.
//  3. A round is counted from the end of a warm-up to the end of its window;
//     recording an operation allocates nothing.
//  4. An error of an implementation ends the run: none is counted as an operation.
//
// # Not guaranteed
//
// That absolute figures can be compared with those of another run: server and clients
// share the machine. Processes are clients within this process, which share one Go
// scheduler and one garbage collector.
package main
