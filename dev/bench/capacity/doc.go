// SPDX-License-Identifier: Apache-2.0

// Capacity computes from measured constants what a load needs of servers and processes, and what saturates first.
//
//	go run ./capacity -held 10000000 -lease 30s -processes 1000 -masters 100
//
// Its constants are of the tables of results.txt, on a core that executes about 8,500 instructions of a server in a
// microsecond. It adds up averages: it knows no bursts except the one after an outage, and no other load of the server.
package main
