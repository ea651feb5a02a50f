// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/gocron"
)

// cleanUp is the job.
func cleanUp() {}

// newScheduler makes the scheduler of one process. One of all processes runs the job at each full minute.
func newScheduler(session *signalbox.Session) (gocron.Scheduler, error) {
	locker := sbgocron.NewLocker(session, time.Minute)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		return nil, err
	}
	locker.Attach(scheduler)
	// The name is the job for all processes.
	_, err = scheduler.NewJob(gocron.CronJob("* * * * *", false), gocron.NewTask(cleanUp), gocron.WithName("clean-up"))
	return scheduler, err
}

func ExampleLocker() {
	var session *signalbox.Session // one for the process, by signalbox.Dial
	scheduler, err := newScheduler(session)
	if err != nil {
		return
	}
	scheduler.Start()
}
