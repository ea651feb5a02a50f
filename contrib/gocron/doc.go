// SPDX-License-Identifier: Apache-2.0

// Package gocron lets the schedulers of several processes share their jobs: each tick of a job runs in
// one of them. It implements the interfaces Locker and Elector of github.com/go-co-op/gocron/v2.
//
// Use it if jobs are in gocron already. Otherwise package once runs a job once, and package
// election leads.
//
//	import sbgocron "github.com/signalbox-go/signalbox/contrib/gocron"
//
//	locker := sbgocron.NewLocker(session, time.Minute) // jobs are due at full minutes
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// # Guarantees of Locker
//
//  1. One scheduler runs each tick of a job, even if the job is very short and the clocks of the
//     schedulers differ. By its own clock a scheduler may start a tick up to half a second early, and less than a
//     period late: such a start counts for that tick. Package once stores that the tick ran, under a key that has
//     the tick's time.
//  2. No scheduler waits for the run of another: Lock returns at once if another has the tick, and after half a
//     period if the server does not reply.
//  3. A tick runs again only if that was not stored: the process died, lost its lease, or could not reach the server
//     when the job had ended. A living scheduler takes the tick over when the lease has ended. If it is attached
//     (Locker.Attach), it runs the job for each such tick at once. Else its next call of Lock does: in place of
//     a tick that another scheduler has, or together with its own, for which one run stands.
//
// # Guarantees of Elector
//
//  1. At most one scheduler is the leader, and only the leader starts jobs. For this, the server must keep
//     its hold (the leader's entry) until the lease ends. A job that runs when its leader loses the lease
//     continues, beside those of the next leader.
//  2. If the leader dies, the next scheduler that asks after its lease has ended becomes the leader.
//
// # Not promised
//
//   - That a failed job runs again: gocron does not report to a Locker whether a job failed. Call
//     [once.Once.Do] in the task, without a Locker, if it must.
//   - That a job stops when its lease is lost: gocron does not check it. It may then run beside another.
//   - Ticks of jobs that are not due at multiples of the period of NewLocker: see there, and Locker.PeriodOf.
//   - A run of each tick during an outage of the server: a Lock that had no reply returns the error, and gocron skips
//     the tick.
//   - With an Elector, jobs that only some of the schedulers have: the leader alone runs its own.
//   - With an Elector, that a tick runs once. If the leader changes near a tick, and the clocks of the two
//     schedulers differ, both may run it, or neither. A Locker does not have this gap.
//
// # Cost
//
// A Locker costs 5 round trips for the scheduler that runs a tick, and the key of an outcome for Keep.
// The others pay 7 round trips, and have a goroutine and a ticket in the server's queue until it has ended; one that comes
// later pays 1. An Elector costs 1 for each tick of a scheduler that is not the leader, and a renewal every ten seconds for
// the leader.
package gocron
