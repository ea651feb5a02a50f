// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// limit is how long a test waits for processes. Only a broken promise takes that long.
const limit = time.Minute

// P5: workers that are killed anywhere and started again repeat their ids: the round opens when all are
// done, and not before.
func TestKilledWorkersThatAreStartedAgainOpenNothingEarly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	l := countdown.New(locktest.Session(t, server), "jobs")
	const workers, jobs = 4, 200
	r := mustStart(t, l, workers*jobs+1) // one more, so that only the test opens it
	waiter := child(t, "waiter", server, "jobs", fmt.Sprint(roundEnv, "=", r.ID()))
	require.Equal(t, "waits", line(t, waiter))
	locktest.Together(t, workers, func(i int) error {
		start := func() *redistest.Process {
			return child(t, "worker", server, "jobs", fmt.Sprint(roundEnv, "=", r.ID()), fmt.Sprint(fromEnv, "=", i*jobs), fmt.Sprint(countEnv, "=", jobs))
		}
		for range 3 {
			p := start()
			for range 1 + rand.N(jobs) {
				if _, err := p.ReadLine(limit); err != nil {
					return fmt.Errorf("%w; it said %s", err, p.Stderr())
				}
			}
			p.Kill()
		}
		if code := start().Wait(limit); code != 0 {
			return fmt.Errorf("a worker ended with %d", code)
		}
		return nil
	})
	left, err := r.Count(locktest.Context(t))
	require.NoError(t, err)
	require.Equal(t, 1, left, "every job counts once")
	left, err = r.CountDown(locktest.Context(t), "the last")
	require.NoError(t, err)
	require.Zero(t, left)
	require.Equal(t, "open", line(t, waiter))
	require.Zero(t, waiter.Wait(limit))
}

// P6: a waiter that was stopped over several rounds learns how its own ended.
func TestAStoppedWaiterLearnsHowItsRoundEnded(t *testing.T) {
	t.Parallel()
	for _, want := range []string{"open", "reset"} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			l := countdown.New(locktest.Session(t, server), "stopped")
			r := mustStart(t, l, 1)
			waiter := child(t, "waiter", server, "stopped", fmt.Sprint(roundEnv, "=", r.ID()))
			require.Equal(t, "waits", line(t, waiter))
			waiter.Freeze()
			if want == "reset" {
				require.NoError(t, l.Reset(locktest.Context(t)))
			} else {
				_, err := r.CountDown(locktest.Context(t), "x")
				require.NoError(t, err)
			}
			for range 5 {
				next := mustStart(t, l, 1)
				_, err := next.CountDown(locktest.Context(t), "x")
				require.NoError(t, err)
			}
			mustStart(t, l, 1)
			server.MustDo(t, "CLIENT", "KILL", "TYPE", "pubsub") // only its own poll can find out
			waiter.Thaw()
			require.Equal(t, want, line(t, waiter))
			require.Zero(t, waiter.Wait(limit))
		})
	}
}

// P6: a server restarts empty while processes wait: they get an error, and do not wait for ever; and the next
// round begins.
func TestARestartOfTheServerIsReportedToWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.Session(t, server)
	l := countdown.New(s, "restarted")
	r := mustStart(t, l, 2)
	waiter := child(t, "waiter", server, "restarted", fmt.Sprint(roundEnv, "=", r.ID()))
	require.Equal(t, "waits", line(t, waiter))
	server.Kill()
	counted := make(chan error, 1)
	ctx := long(t)
	go func() {
		_, err := r.CountDown(ctx, "x") // waits for the server
		counted <- err
	}()
	server.Restart()
	require.ErrorIs(t, <-counted, signalbox.ErrRoundLost)
	require.Equal(t, "lost", line(t, waiter))
	require.Zero(t, waiter.Wait(limit))
	require.Greater(t, mustStart(t, l, 1).ID(), r.ID())
}

// P6: a server that restarts with its data has the round still.
func TestARestartWithItsDataLosesNoRound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--dir", t.TempDir(), "--appendonly", "yes", "--appendfsync", "always"))
	s := locktest.Session(t, server)
	l := countdown.New(s, "kept")
	r := mustStart(t, l, 2)
	waiter := child(t, "waiter", server, "kept", fmt.Sprint(roundEnv, "=", r.ID()))
	require.Equal(t, "waits", line(t, waiter))
	_, err := r.CountDown(locktest.Context(t), "x")
	require.NoError(t, err)
	server.Kill()
	server.Restart()
	for i, id := range []string{"x", "y"} {
		left, err := r.CountDown(long(t), id)
		require.NoError(t, err)
		require.Equal(t, 1-i, left)
	}
	require.Equal(t, "open", line(t, waiter))
	require.Zero(t, waiter.Wait(limit))
}
