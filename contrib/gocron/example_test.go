// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	sbgocron "github.com/signalbox-go/signalbox/contrib/gocron"
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

// Each full minute one of all processes runs the job.
func ExampleNewLocker() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL) // "redis://localhost:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	scheduler, err := newScheduler(session)
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	fmt.Println(len(scheduler.Jobs()), "job", scheduler.Shutdown())
	// Output: 1 job <nil>
}

// One of all processes runs every job, until it resigns or dies.
func ExampleNewElector() {
	ctx := context.Background()
	session, err := signalbox.Dial(ctx, serverURL)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(context.Background())

	elector := sbgocron.NewElector(session, "schedulers") // for gocron.WithDistributedElector
	fmt.Println("this process leads:", elector.IsLeader(ctx) == nil)
	if err := elector.Resign(); err != nil { // when the scheduler has stopped
		log.Fatal(err)
	}
	// Output: this process leads: true
}

// The scheduler that the README shows is one that gocron accepts.
func TestTheSchedulerOfTheReadmeIsMade(t *testing.T) {
	t.Parallel()
	scheduler, err := newScheduler(nil)
	require.NoError(t, err)
	require.Len(t, scheduler.Jobs(), 1)
	require.NoError(t, scheduler.Shutdown())
}
