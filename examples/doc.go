// SPDX-License-Identifier: Apache-2.0

// Package examples is the root of the programs that run as they are, one for each question:
// quickstart shows what there is, basic is the program of the README, barrier is a cyclic barrier,
// leader is a service with one leader, workers is a pool that is bounded over all processes.
package examples
