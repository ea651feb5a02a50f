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
func eachKind(t *testing.T, test func(w *fixture, kind redistest.FaultKind)) {
	t.Helper()
	for _, kind := range redistest.FaultKinds() {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) { test(w, kind) })
		})
	}
}

// mustStart starts a round.
func mustStart(w *fixture, l *countdown.Latch, n int) countdown.Round {
	w.Helper()
	r, err := l.Start(w.Context(), n)
	require.NoError(w, err)
	return r
}

// mustCount counts an id down, after which so many are left.
func mustCount(w *fixture, r countdown.Round, left int, id string) {
	w.Helper()
	n, err := r.CountDown(w.Context(), id)
	require.NoError(w, err)
	require.Equal(w, left, n)
}

// waitsFor waits for a round on another goroutine, and returns when the session listens.
func waitsFor(w *fixture, r countdown.Round) <-chan error {
	return w.later(func() error { return r.Wait(w.Context()) })
}

// opens fails the test if a wait ends otherwise than by the opening of its round.
func opens(w *fixture, waiting <-chan error) {
	w.Helper()
	require.NoError(w, redistest.Receive(w, "the opening", waiting))
}

// P1, P4, P5, P6: whichever request of a round fails, and however: each step returns, each id counts once,
// there is one round, and all its waiters are woken.
func TestRoundSurvivesAFaultAtEveryRequest(t *testing.T) {
	t.Parallel()
	// session/hello, start, count twice, poll, SUBSCRIBE, poll, and a poll a second later.
	const steps = 8
	eachKind(t, func(w *fixture, kind redistest.FaultKind) {
		calm := w.user()
		s := w.faultySession(redistest.Commands("EVAL", "EVALSHA", "SUBSCRIBE"))
		for at := 1; at <= steps; at++ {
			l, theirs := countdown.New(s.Session, fmt.Sprint(at)), countdown.New(calm.Session, fmt.Sprint(at))
			s.arm(kind, at)
			r := mustStart(w, l, 3)
			mustCount(w, r, 2, "a")
			mustCount(w, r, 1, "b")
			waiting := waitsFor(w, r)
			s.awaitFault()
			require.Empty(w, waiting, "woken early")
			joined, err := theirs.Round(w.Context())
			require.NoError(w, err)
			require.Equal(w, r.ID(), joined.ID())
			mustCount(w, joined, 0, "c")
			opens(w, waiting)
			next := mustStart(w, theirs, 1)
			_, err = theirs.RoundOf(r.ID()).CountDown(w.Context(), "a")
			require.ErrorIs(w, err, signalbox.ErrRoundOver)
			left, err := next.Count(w.Context())
			require.NoError(w, err)
			require.Equal(w, 1, left)
			s.heal()
		}
	})
}

// P5: a count-down whose reply is lost counts once, and opens nothing early, however it is lost.
func TestCountDownWithALostReplyCountsOnce(t *testing.T) {
	t.Parallel()
	eachKind(t, func(w *fixture, kind redistest.FaultKind) {
		s := w.faultySession(locktest.RunsScript(scripts.CountdownCount))
		r := mustStart(w, countdown.New(w.user().Session, "a"), 3)
		mine := countdown.New(s.Session, "a").RoundOf(r.ID())
		s.arm(kind, 1)
		mustCount(w, mine, 2, "x")
		require.True(w, s.allFired())
		s.heal()
		mustCount(w, r, 1, "y")
		s.arm(kind, 1)
		mustCount(w, mine, 0, "z")
		require.True(w, s.allFired())
		require.NoError(w, r.Wait(w.Context()))
	})
}

// P5: a count-down that opened its round returns 0 though its reply is lost and another round has begun by the time that
// it is sent again.
func TestLostOpeningIsNotTakenForALateWorker(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s, calm := w.faultySession(locktest.RunsScript(scripts.CountdownCount)), countdown.New(w.user().Session, "a")
		r := mustStart(w, calm, 1)
		s.arm(redistest.CutAfterRequest, 1)
		s.then(2, func() {
			if _, err := calm.Start(context.Background(), 1); err != nil {
				w.Error(err)
			}
		})
		mustCount(w, countdown.New(s.Session, "a").RoundOf(r.ID()), 0, "x")
		_, err := r.CountDown(w.Context(), "x")
		require.ErrorIs(w, err, signalbox.ErrRoundOver, "one that knows of its opening")
	})
}

// P5: a start whose round is forgotten when it is sent again begins no second one.
func TestForgottenStartIsErrUnconfirmed(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s, calm := w.faultySession(locktest.RunsScript(scripts.CountdownStart)), countdown.New(w.user().Session, "a")
		mustCount(w, mustStart(w, calm, 1), 0, "x")
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
					w.Error(err)
				}
			}
			if err := calm.Reset(context.Background()); err != nil {
				w.Error(err)
			}
		})
		_, err := countdown.New(s.Session, "a").Start(w.Context(), 1)
		require.ErrorIs(w, err, signalbox.ErrUnconfirmed)
	})
}

// P5: a reset whose reply is lost resets no round that was started since.
func TestLostResetResetsNoOtherRound(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s, calm := w.faultySession(locktest.RunsScript(scripts.CountdownReset)), countdown.New(w.user().Session, "a")
		first := mustStart(w, calm, 1)
		s.arm(redistest.CutAfterRequest, 1)
		var next countdown.Round
		s.then(2, func() {
			var err error
			if next, err = calm.Start(context.Background(), 1); err != nil {
				w.Error(err)
			}
		})
		require.NoError(w, countdown.New(s.Session, "a").Reset(w.Context()))
		require.ErrorIs(w, first.Wait(w.Context()), signalbox.ErrReset)
		mustCount(w, next, 0, "x")
	})
}

// P4: a start that failed leaves no round behind, also if the server executes it late.
func TestFailedStartLeavesNoRound(t *testing.T) {
	t.Parallel()
	eachKind(t, func(w *fixture, kind redistest.FaultKind) {
		s, calm := w.faultySession(locktest.RunsScript(scripts.CountdownStart)), countdown.New(w.user().Session, "a")
		mustCount(w, mustStart(w, calm, 1), 0, "x")
		l := countdown.New(s.Session, "a")
		newest := func() string { return w.redis.HGet(locktest.Keys("a").Latch(), "round")[:20] }
		before := newest()
		ctx, cancel := context.WithCancel(w.Context())
		s.arm(kind, 1)
		s.then(1, cancel)
		_, err := l.Start(ctx, 1)
		require.ErrorIs(w, err, context.Canceled)
		s.awaitFault()
		time.Sleep(time.Minute)
		require.Zero(w, locktest.Undoing(s.Session))
		after := newest()
		require.True(w, after == before || strings.HasSuffix(after, "x"), "%s after %s", after, before)
		mustStart(w, calm, 1)
	})
}
