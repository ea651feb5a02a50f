// SPDX-License-Identifier: Apache-2.0

// Package gocron lets the schedulers of several processes share their jobs: each tick of a job runs in
// one of them. It implements the interfaces Locker and Elector of github.com/go-co-op/gocron/v2.
//
//	import sbgocron "github.com/signalbox-go/signalbox/gocron"
//
//	locker := sbgocron.NewLocker(session, time.Minute) // jobs are due at full minutes
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// # Guarantees of Locker
//
//  1. One scheduler runs each tick of a job, whatever the clocks of the schedulers say, however late
//     they are (within the limits of NewLocker), and however short the job is. Package once stores
//     that the tick ran, under a key that has the tick's time.
//  2. If that process dies or loses its lease while it runs the job, another scheduler that has asked
//     for the same tick runs it again.
//
// # Guarantees of Elector
//
//  1. At most one scheduler is the leader, and only that one runs jobs.
//  2. If the leader dies, the next scheduler that asks after its lease has ended becomes the leader.
//
// # Not promised
//
//   - That a failed job runs again: gocron does not report to a Locker whether a job failed. Call
//     [once.Once.Do] in the task, without a Locker, if it must.
//   - That a job stops when its lease is lost: gocron does not check it. It may then run beside another.
//   - Ticks of jobs that are not due at multiples of the period of NewLocker: see there.
//   - With an Elector, that a tick runs once: two leaders may follow each other between two schedulers
//     whose clocks differ. A Locker does not have this gap.
//
// # Cost
//
// A Locker costs 5 round trips for the scheduler that runs a tick, and the key of an outcome for Keep.
// The others wait for its end, each with a ticket in the server's queue, and pay 6 round trips; one that comes later
// pays 1. An Elector costs 1 for each tick of a scheduler that is not the leader, and a renewal every ten seconds for
// the leader.
package gocron
