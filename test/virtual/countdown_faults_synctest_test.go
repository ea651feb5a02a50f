// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

// eachKind runs a test in a bubble with each fault that a wire can have.
func eachKind(t *testing.T, test func(f *fixture, kind redistest.FaultKind)) {
	t.Helper()
	for _, kind := range redistest.FaultKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) { test(f, kind) })
		})
	}
}

// mustStart starts a round.
func mustStart(f *fixture, l *countdown.Latch, n int) countdown.Round {
	f.Helper()
	r, err := l.Start(f.Context(), n)
	require.NoError(f, err)
	return r
}

// mustCount counts an id down, after which so many are left.
func mustCount(f *fixture, r countdown.Round, left int, id string) {
	f.Helper()
	n, err := r.CountDown(f.Context(), id)
	require.NoError(f, err)
	require.Equal(f, left, n)
}

// waitsFor waits for a round on another goroutine, and returns when the session listens.
func waitsFor(f *fixture, r countdown.Round) <-chan error {
	return f.later(func() error { return r.Wait(f.Context()) })
}

// opens fails the test if a wait ends otherwise than by the opening of its round.
func opens(f *fixture, waiting <-chan error) {
	f.Helper()
	require.NoError(f, redistest.Receive(f, "the opening", waiting))
}

// P1, P4, P5, P6: whichever request of a round fails, and however: each step returns, each id counts once,
// there is one round, and all its waiters are woken.
func TestRoundSurvivesAFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	// session/hello, start, count twice, poll, SUBSCRIBE, poll, and a poll a second later.
	const steps = 8
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		calm := f.user()
		s := f.faultySession(redistest.Commands("EVAL", "EVALSHA", "SUBSCRIBE"))
		for at := 1; at <= steps; at++ {
			l, theirs := countdown.New(s.Session, fmt.Sprint(at)), countdown.New(calm.Session, fmt.Sprint(at))
			s.arm(kind, at)
			r := mustStart(f, l, 3)
			mustCount(f, r, 2, "a")
			mustCount(f, r, 1, "b")
			waiting := waitsFor(f, r)
			s.awaitFault()
			require.Empty(f, waiting, "woken early")
			joined, err := theirs.Round(f.Context())
			require.NoError(f, err)
			require.Equal(f, r.ID(), joined.ID())
			mustCount(f, joined, 0, "c")
			opens(f, waiting)
			next := mustStart(f, theirs, 1)
			_, err = theirs.RoundOf(r.ID()).CountDown(f.Context(), "a")
			require.ErrorIs(f, err, signalbox.ErrRoundOver)
			left, err := next.Count(f.Context())
			require.NoError(f, err)
			require.Equal(f, 1, left)
			s.heal()
		}
	})
}

// P5: a count-down whose reply is lost counts once, and opens nothing early, however it is lost.
func TestCountDownWithALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		s := f.faultySession(locktest.RunsScript(scripts.CountdownCount))
		r := mustStart(f, countdown.New(f.user().Session, "a"), 3)
		mine := countdown.New(s.Session, "a").RoundOf(r.ID())
		s.arm(kind, 1)
		mustCount(f, mine, 2, "x")
		require.True(f, s.allFired())
		s.heal()
		mustCount(f, r, 1, "y")
		s.arm(kind, 1)
		mustCount(f, mine, 0, "z")
		require.True(f, s.allFired())
		require.NoError(f, r.Wait(f.Context()))
	})
}

// P5: a count-down that opened its round returns 0 though its reply is lost and another round has begun by the time that
// it is sent again.
func TestLostOpeningIsNotTakenForALateWorker(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.CountdownCount)), countdown.New(f.user().Session, "a")
		r := mustStart(f, calm, 1)
		s.arm(redistest.CutAfterRequest, 1)
		s.then(2, func() {
			if _, err := calm.Start(context.Background(), 1); err != nil {
				f.Error(err)
			}
		})
		mustCount(f, countdown.New(s.Session, "a").RoundOf(r.ID()), 0, "x")
		_, err := r.CountDown(f.Context(), "x")
		require.ErrorIs(f, err, signalbox.ErrRoundOver, "one that knows of its opening")
	})
}

// P5: a start whose round is forgotten when it is sent again begins no second one.
func TestForgottenStartIsErrUnconfirmed(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.CountdownStart)), countdown.New(f.user().Session, "a")
		mustCount(f, mustStart(f, calm, 1), 0, "x")
		s.arm(redistest.CutAfterRequest, 1)
		s.then(2, func() {
			for range 34 {
				r, err := calm.Round(context.Background())
				if err == nil {
					_, err = r.CountDown(context.Background(), "x")
				}
				if err == nil {
					_, err = calm.Start(context.Background(), 1)
				}
				if err != nil {
					f.Error(err)
				}
			}
			if err := calm.Reset(context.Background()); err != nil {
				f.Error(err)
			}
		})
		_, err := countdown.New(s.Session, "a").Start(f.Context(), 1)
		require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
	})
}

// P5: a reset whose reply is lost resets no round that was started since.
func TestLostResetResetsNoOtherRound(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.CountdownReset)), countdown.New(f.user().Session, "a")
		first := mustStart(f, calm, 1)
		s.arm(redistest.CutAfterRequest, 1)
		var next countdown.Round
		s.then(2, func() {
			var err error
			if next, err = calm.Start(context.Background(), 1); err != nil {
				f.Error(err)
			}
		})
		require.NoError(f, countdown.New(s.Session, "a").Reset(f.Context()))
		require.ErrorIs(f, first.Wait(f.Context()), signalbox.ErrReset)
		mustCount(f, next, 0, "x")
	})
}

// P4: a start that failed leaves no round behind, also if the server executes it late.
func TestFailedStartLeavesNoRound(t *testing.T) {
	t.Parallel()
	eachKind(t, func(f *fixture, kind redistest.FaultKind) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.CountdownStart)), countdown.New(f.user().Session, "a")
		mustCount(f, mustStart(f, calm, 1), 0, "x")
		l := countdown.New(s.Session, "a")
		newest := func() string { return f.redis.HGet(locktest.Keys("a").Latch(), "round")[:20] }
		before := newest()
		ctx, cancel := context.WithCancel(f.Context())
		s.arm(kind, 1)
		s.then(1, cancel)
		_, err := l.Start(ctx, 1)
		require.ErrorIs(f, err, context.Canceled)
		s.awaitFault()
		time.Sleep(time.Minute)
		require.Zero(f, locktest.Undoing(s.Session))
		after := newest()
		require.True(f, after == before || strings.HasSuffix(after, "x"), "%s after %s", after, before)
		mustStart(f, calm, 1)
	})
}
