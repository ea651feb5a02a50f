// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"fmt"
	"slices"
	"strings"
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

// P10: without a right each step returns ErrDenied, or continues without it; a waiter finds out by polls,
// or gets the error.
func TestEachMissingRightOfALatchIsReportedOrNotNeeded(t *testing.T) {
	t.Parallel()
	redistest.Slow(t, later)
	all := users(t)[oneServer]
	everything := latchRounds{denied, denied, denied, denied, denied, denied, denied}
	reading := latchRounds{join: denied, read: denied, wait: denied, reset: denied}
	for without, want := range map[string]latchRounds{
		"+evalsha": everything, "~sb:*": everything, "+hget": everything,
		"+time":    {start: denied, again: denied, reset: denied},
		"+hset":    {start: denied, count: denied, again: denied, reset: denied},
		"+hlen":    {join: denied, read: denied, wait: denied, count: denied, again: denied, reset: denied},
		"+pttl":    reading,
		"+exists":  {start: denied},
		"+pexpire": {start: denied, count: denied, again: denied, reset: denied},
		"+unlink":  {again: denied}, "+publish": {}, "+subscribe": {}, "&sb:*": {},
	} {
		t.Run(title(without), func(t *testing.T) {
			t.Parallel()
			s := newServers(t, redistest.Start(t))
			require.Contains(t, all, without)
			s.allow(t, "latches", slices.DeleteFunc(slices.Clone(all), func(r string) bool { return r == without }))
			redistest.LoadScripts(t, s.data[0])
			one, other := locktest.Session(t, s.as("latches")), locktest.Session(t, s.as("latches"))
			got := playRounds(t, one, other, locktest.Session(t, s), "a latch")
			for step, ended := range map[string][2]error{
				"start": {got.start, want.start}, "join": {got.join, want.join}, "count": {got.count, want.count},
				"read": {got.read, want.read}, "wait": {got.wait, want.wait}, "again": {got.again, want.again}, "reset": {got.reset, want.reset},
			} {
				if ended[1] == nil {
					require.NoError(t, ended[0], step)
				} else {
					require.ErrorIs(t, ended[0], ended[1], step)
				}
			}
			require.NotEmpty(t, s.denials(t, "latches"))
			for _, key := range s.data[0].Keys("*") {
				require.True(t, strings.HasPrefix(key, "sb:"))
				require.NotEqual(t, "-1", fmt.Sprint(s.data[0].MustDo(t, "PTTL", key)), "%s has no end", key)
			}
		})
	}
}
