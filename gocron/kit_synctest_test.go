// SPDX-License-Identifier: Apache-2.0

package gocron_test

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
)

// world is an embedded server in a bubble of virtual time.
type world struct {
	*testing.T

	redis *miniredis.Miniredis
}

func bubble(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)))
		w := &world{T: t, redis: miniredis.NewMiniRedis()}
		w.redis.ClockTTL(true)
		first, err := w.redis.Dial() // which makes the server
		require.NoError(t, err)
		require.NoError(t, first.Close())
		defer w.redis.Close()
		test(w)
	})
}

// session returns a session, as another process would have it, and what ends it.
func (w *world) session() (*signalbox.Session, func()) {
	w.Helper()
	o := rueidis.ClientOption{
		InitAddress: []string{"embedded"}, ForceSingleClient: true, AlwaysRESP2: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) { return w.redis.Dial() },
	}
	signalbox.Tune(&o)
	client, err := rueidis.NewClient(o)
	require.NoError(w, err)
	s := signalbox.NewSession(client)
	return s, func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Close(ended) // leases may be left
		client.Close()
	}
}

// skewed is a clock that is wrong.
type skewed struct {
	clockwork.Clock

	ahead time.Duration
}

func clockAhead(d time.Duration) *skewed { return &skewed{clockwork.NewRealClock(), d} }

// Now implements clockwork.Clock.
func (c *skewed) Now() time.Time { return c.Clock.Now().Add(c.ahead) }

// Since implements clockwork.Clock.
func (c *skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// Until implements clockwork.Clock.
func (c *skewed) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

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
