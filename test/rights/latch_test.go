// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// latchRounds is what a program does with a latch, and what each of it ended with.
type latchRounds struct {
	start, join, count, read, wait, reset, again error
}

// playRounds takes all that a latch can do, as far as it goes. Where it may not start, the operator does.
func playRounds(t *testing.T, one, other *signalbox.Session, operator *signalbox.Session, name string) (r latchRounds) {
	t.Helper()
	ctx := locktest.Context(t)
	mine, theirs := countdown.New(one, name), countdown.New(other, name)
	round, err := mine.Start(ctx, 2)
	if r.start = err; err != nil {
		round, err = countdown.New(operator, name).Start(ctx, 2)
		require.NoError(t, err)
	}
	_, r.join = theirs.Round(ctx)
	waited := make(chan error, 1)
	go func() { waited <- theirs.RoundOf(round.ID()).Wait(ctx) }()
	redistest.Await(t, "a waiter, or its refusal, since an open latch may be read with less", func() bool {
		return len(waited) > 0 || r.join == nil && locktest.Channels(other) > 0
	})
	_, r.read = theirs.RoundOf(round.ID()).Count(ctx)
	for i, id := range []string{"x", "y"} {
		if _, r.count = mine.RoundOf(round.ID()).CountDown(ctx, id); r.count != nil {
			left, err := countdown.New(operator, name).RoundOf(round.ID()).CountDown(ctx, id)
			require.NoError(t, err)
			require.Equal(t, 1-i, left)
		}
	}
	r.wait = <-waited
	_, r.again = mine.Start(ctx, 1)
	if r.again != nil {
		_, err = countdown.New(operator, name).Start(ctx, 1)
		require.NoError(t, err)
	}
	r.reset = mine.Reset(ctx)
	return r
}

// P10: a latch works under the rights of the page, on one server and in a cluster, and nothing that is tried is denied.
func TestTheRightsOfThePageAreEnoughForALatch(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	for name, c := range map[string]struct {
		start func(t *testing.T) redistest.Topology
		user  int
	}{
		"OneServer": {func(t *testing.T) redistest.Topology { t.Helper(); return redistest.Start(t) }, oneServer},
		"Cluster": {func(t *testing.T) redistest.Topology {
			t.Helper()
			return redistest.StartCluster(t, redistest.WithFailoverAfter(failoverAfter))
		}, cluster},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServers(t, c.start(t))
			s.allow(t, "latches", users(t)[c.user])
			secrets := locktest.NewSecrets(t)
			secrets.Add(password)
			session := func() *signalbox.Session {
				return locktest.Session(t, s.as("latches"), signalbox.WithLogger(secrets.Logger()))
			}
			one, other := session(), session()
			require.Equal(t, latchRounds{}, playRounds(t, one, other, locktest.Session(t, s), "{a} latch"))
			redistest.Await(t, "the end of the linger", func() bool { return locktest.Channels(other) == 0 })
			require.Empty(t, s.denials(t, "latches"))
			require.NoError(t, one.Close(t.Context()), "which writes what was logged")
			require.NoError(t, other.Close(t.Context()))
			require.Empty(t, secrets.Recorded())
		})
	}
}
