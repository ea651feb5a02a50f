// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

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

// The scheduler that the README shows is one that gocron accepts.
func TestTheSchedulerOfTheReadmeIsMade(t *testing.T) {
	t.Parallel()
	scheduler, err := newScheduler(nil)
	require.NoError(t, err)
	require.Len(t, scheduler.Jobs(), 1)
	require.NoError(t, scheduler.Shutdown())
}
