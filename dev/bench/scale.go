// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// scale is how large and how long the works are. The number of processes and goroutines that
// a work is named for is no part of it.
type scale struct {
	rounds int           // the rounds of works that settle within milliseconds
	warmUp time.Duration // the warm-up before each window of these works
	window time.Duration // the time that each round of these works counts

	// One contended lock: pollers sleep up to a second there, so that a round is longer.
	contendedRounds int
	contended       time.Duration

	lease time.Duration // the lease of all works except held

	pairs int // of a Lock and Unlock whose instructions are counted, at the least

	// After a window, waiters of whom none got the lock for that long are given up: longer
	// than any implementation pauses between two tries.
	patience time.Duration

	crowd int // processes that wait for one lock

	gridProcesses, gridGoroutines []int // the processes and goroutines that want one lock
	gridSections                  []time.Duration
	gridWindow                    time.Duration // a second with the warm-up and the start of the clients

	// A rolling restart: processes, each of which ends once, one after the other at this interval.
	restarted    int
	restartEvery time.Duration

	fewQueued, manyQueued int // waiters of one lock whose scripts are compared

	parties, counted                int // goroutines that wait for one latch; ids that it has counted when its scripts are compared
	fewHeldPermits, manyHeldPermits int // permits that are held while others are acquired and released
	readers, releases               int // the readers of one lock, and the number that leave while the server's time is measured

	// Beside Java: before its loops; locks that are held there and here; readers that leave.
	javaWarmUp             time.Duration
	javaHeld, javaReleases int
	javaLease, javaHeldFor time.Duration

	// Groups of shards: how many shards and members; of how many members half are killed; how many are replaced.
	shards, shardMembers, shardKilled []int
	shardRolled                       int
	shardLease, shardDelay, shardIdle time.Duration // the lease; RebalanceDelay of members that are replaced; the time at rest

	held      int           // locks that are held
	heldLease time.Duration // the lease of these locks
	heldFor   time.Duration // three leases, so that nothing lasts that is not renewed

	// The server stops for outage, so long after the processes have acquired their locks.
	outageProcesses, outageHeld int
	outageAfter, outage         time.Duration

	waiters, waited int           // goroutines that wait, and the locks they wait for
	quietFor        time.Duration // the time after which waiting counts as idle
	idle            time.Duration // the time for which idling is measured
}

// full takes about a quarter of an hour with all implementations.
func full() scale {
	return scale{
		rounds: 5, warmUp: 100 * time.Millisecond, window: 500 * time.Millisecond,
		contendedRounds: 3, contended: 2 * time.Second,
		lease: 30 * time.Second, patience: 1500 * time.Millisecond,
		crowd:         100,
		gridProcesses: []int{1, 8, 100}, gridGoroutines: []int{1, 2, 4, 16, 64}, gridWindow: 800 * time.Millisecond,
		gridSections: []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 10 * time.Millisecond},
		restarted:    20, restartEvery: time.Second,
		fewQueued: 10, manyQueued: 10_000,
		parties: 10_000, counted: 100_000, pairs: 2048,
		fewHeldPermits: 10, manyHeldPermits: 100_000,
		readers: 10_000, releases: 2_000,
		javaWarmUp: 3 * time.Second, javaHeld: 2_000, javaReleases: 100, javaLease: 3 * time.Second, javaHeldFor: 6 * time.Second,
		shards: []int{64, 1_000, 10_000}, shardMembers: []int{2, 10, 100}, shardKilled: []int{10, 100}, shardRolled: 10,
		shardLease: 15 * time.Second, shardDelay: 500 * time.Millisecond, shardIdle: 2 * time.Second,
		held: 10_000, heldLease: 3 * time.Second, heldFor: 9 * time.Second,
		outageProcesses: 50, outageHeld: 200, outageAfter: 40 * time.Second, outage: 20 * time.Second,
		waiters: 5_000, waited: 500, quietFor: 2 * time.Second, idle: 3 * time.Second,
	}
}

// short takes a minute or two; its figures say whether something broke.
func short() scale {
	s := full()
	s.rounds, s.warmUp, s.window = 2, 20*time.Millisecond, 150*time.Millisecond
	s.contendedRounds, s.contended = 1, 500*time.Millisecond
	s.held, s.heldLease, s.heldFor = 2_000, 600*time.Millisecond, 1800*time.Millisecond
	s.outageProcesses, s.outageAfter, s.outage = 5, time.Second, time.Second
	s.gridProcesses, s.gridGoroutines = []int{1, 8}, []int{1, 16}
	s.gridSections, s.gridWindow = []time.Duration{0, time.Millisecond}, 150*time.Millisecond
	s.restarted, s.restartEvery = 8, 150*time.Millisecond
	s.counted = 10_000
	s.manyQueued, s.manyHeldPermits = 2_000, 2_000
	s.readers, s.releases = 2_000, 500
	s.javaWarmUp, s.javaHeld, s.javaReleases = 200*time.Millisecond, 300, 20
	s.javaLease, s.javaHeldFor = 6*time.Second, 2400*time.Millisecond // a loss ends the run, and a machine may stall
	s.shards, s.shardMembers, s.shardKilled, s.shardRolled = []int{64}, []int{10}, []int{10}, 3
	s.shardLease, s.shardDelay, s.shardIdle = 5*time.Second, 100*time.Millisecond, 500*time.Millisecond
	s.waiters, s.waited, s.quietFor, s.idle = 1_000, 100, 500*time.Millisecond, 500*time.Millisecond
	return s
}
