// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P5: workers that are killed anywhere and started again repeat their ids: the round opens when all are
// done, and not before.
func TestKilledWorkersThatAreStartedAgainOpenNothingEarly(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	l := countdown.New(locktest.Session(t, server), "jobs")
	const workers, jobs = 4, 200
	r := mustStartRound(t, l, workers*jobs+1) // one more, so that only the test opens it
	waiter := latchChild(t, "waiter", server, "jobs", fmt.Sprint(roundEnv, "=", r.ID()))
	require.Equal(t, "waits", nextLineOf(t, waiter))
	locktest.Together(t, workers, func(i int) error {
		start := func() *redistest.Process {
			return latchChild(t, "worker", server, "jobs", fmt.Sprint(roundEnv, "=", r.ID()), fmt.Sprint(fromEnv, "=", i*jobs), fmt.Sprint(countEnv, "=", jobs))
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
	require.Equal(t, "open", nextLineOf(t, waiter))
	require.Zero(t, waiter.Wait(limit))
}
