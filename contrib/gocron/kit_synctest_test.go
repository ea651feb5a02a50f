// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/signalboxtest"
)

// world is a server in memory, in a bubble of virtual time.
type world struct {
	*testing.T
	*signalboxtest.Kit
}

func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(&world{t, signalboxtest.New(t)}) })
}

// ends closes a session at once: leases may be left.
func ends(s *signalbox.Session) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.Close(ended)
}

// skewed is a clock that is wrong.
type skewed struct {
	clockwork.Clock

	ahead time.Duration
}

func clockAhead(d time.Duration) *skewed { return &skewed{clockwork.NewRealClock(), d} }

// Now implements clockwork.Clock.
func (s *skewed) Now() time.Time { return s.Clock.Now().Add(s.ahead) }

// Since implements clockwork.Clock.
func (s *skewed) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// Until implements clockwork.Clock.
func (s *skewed) Until(t time.Time) time.Duration { return t.Sub(s.Now()) }

// schedule runs a job in a scheduler of its own, and returns what ends both.
func (w *world) schedule(job gocron.JobDefinition, task func(ctx context.Context), options ...gocron.SchedulerOption) func() {
	w.Helper()
	scheduler, err := gocron.NewScheduler(append(options, gocron.WithLocation(time.UTC))...)
	require.NoError(w, err)
	made, err := scheduler.NewJob(job, gocron.NewTask(task), gocron.WithName("job"))
	require.NoError(w, err)
	scheduler.Start()
	return func() {
		_ = scheduler.RemoveJob(made.ID())
		time.Sleep(10 * time.Second) // Shutdown polls without a pause while jobs run, so time would stand still
		_ = scheduler.Shutdown()
	}
}

// serverURL is where the example finds a server.
var serverURL string

func TestMain(m *testing.M) {
	redistest.VerifyTestMain(redistest.WithServer(m, func(s *redistest.Server) { serverURL = s.URL() }))
}
