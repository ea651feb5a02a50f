// SPDX-License-Identifier: Apache-2.0

package servers_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The environment variables of a child.
const (
	nameEnv  = "NAME"
	roundEnv = "ROUND"
	fromEnv  = "FROM"
)

// latchChild runs a child that uses a latch.
func latchChild(t *testing.T, role string, server *redistest.Server, name string, env ...string) *redistest.Process {
	t.Helper()
	const patient = "?dial_timeout=20s&write_timeout=20s" // a server may be silent on a busy machine
	return redistest.Child(t, role, append(env, urlEnv+"="+server.URL()+patient, nameEnv+"="+name)...)
}

// nextLineOf reads the child's next line.
func nextLineOf(t *testing.T, p *redistest.Process) string {
	t.Helper()
	text, err := p.ReadLine(limit)
	require.NoError(t, err, p.Stderr())
	return text
}

// latch opens the session of a child. A child that fails ends with its error.
func latch() (*signalbox.Session, *countdown.Latch) {
	s, err := signalbox.Dial(context.Background(), os.Getenv(urlEnv))
	must(err)
	return s, countdown.New(s, os.Getenv(nameEnv))
}

func numberOf(env string) int {
	n, err := strconv.Atoi(os.Getenv(env))
	must(err)
	return n
}

// runWorker counts ids down, from a number on, and says how many are left after each.
func runWorker(_ io.Reader, stdout io.Writer) {
	s, l := latch()
	r := l.RoundOf(uint64(numberOf(roundEnv)))
	for i := range numberOf(countEnv) {
		left, err := r.CountDown(context.Background(), fmt.Sprint("job/", numberOf(fromEnv)+i))
		must(err)
		fmt.Fprintln(stdout, left)
	}
	must(s.Close(context.Background()))
}

// runWaiter waits for a round, says so, and says that it is open.
func runWaiter(_ io.Reader, stdout io.Writer) {
	s, l := latch()
	r := l.RoundOf(uint64(numberOf(roundEnv)))
	_, err := r.Count(context.Background())
	must(err)
	fmt.Fprintln(stdout, "waits")
	must(r.Wait(context.Background()))
	fmt.Fprintln(stdout, "open")
	must(s.Close(context.Background()))
}

// long is a context for what waits until servers, wires or other processes are there again.
func long(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	t.Cleanup(cancel)
	return ctx
}

// mustStartRound starts a round.
func mustStartRound(t *testing.T, l *countdown.Latch, n int) countdown.Round {
	t.Helper()
	r, err := l.Start(locktest.Context(t), n)
	require.NoError(t, err)
	return r
}

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
