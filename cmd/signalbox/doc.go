// SPDX-License-Identifier: Apache-2.0

// Command signalbox holds a lock while a program runs, waits for locks, shows them and breaks them.
//
//	signalbox run nightly-report -- ./report.sh   # at most one at a time, on all hosts
//	signalbox wait nightly-report                 # until no process holds it
//	signalbox break nightly-report                # ends the hold of whatever holds it
//	signalbox move scheduler                      # asks a leader to hand over
//	signalbox ls, who, watch, serve               # show which names are in use
//	signalbox doctor                              # whether the server suits locks
//
// README.md says what run promises and what it does not.
package main
