// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

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

// P5: a count-down that opened its round returns 0 though its reply is lost and another round has begun by the time that it is sent again.
func TestLostOpeningIsNotTakenForALateWorker(t *testing.T) {
	t.Parallel()
	meanwhile(t, scripts.CountdownCount, func(f *fixture, calm, mine *countdown.Latch, then func(do func() error)) {
		r := mustStart(f, calm, 1)
		then(func() error {
			_, err := calm.Start(context.Background(), 1)
			return err
		})
		mustCount(f, mine.RoundOf(r.ID()), 0, "x")
		_, err := r.CountDown(f.Context(), "x")
		require.ErrorIs(f, err, signalbox.ErrRoundOver, "one that knows of its opening")
	})
}

// P5: a start whose round is forgotten when it is sent again begins no second one.
func TestForgottenStartIsErrUnconfirmed(t *testing.T) {
	t.Parallel()
	meanwhile(t, scripts.CountdownStart, func(f *fixture, calm, mine *countdown.Latch, then func(do func() error)) {
		mustCount(f, mustStart(f, calm, 1), 0, "x")
		then(func() (err error) {
			for range 34 {
				r, roundErr := calm.Round(context.Background())
				_, countErr := r.CountDown(context.Background(), "x")
				_, startErr := calm.Start(context.Background(), 1)
				err = errors.Join(err, roundErr, countErr, startErr)
			}
			return errors.Join(err, calm.Reset(context.Background()))
		})
		_, err := mine.Start(f.Context(), 1)
		require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
	})
}

// P5: a reset whose reply is lost resets no round that was started since.
func TestLostResetResetsNoOtherRound(t *testing.T) {
	t.Parallel()
	meanwhile(t, scripts.CountdownReset, func(f *fixture, calm, mine *countdown.Latch, then func(do func() error)) {
		first := mustStart(f, calm, 1)
		var next countdown.Round
		then(func() (err error) {
			next, err = calm.Start(context.Background(), 1)
			return err
		})
		require.NoError(f, mine.Reset(f.Context()))
		require.ErrorIs(f, first.Wait(f.Context()), signalbox.ErrReset)
		mustCount(f, next, 0, "x")
	})
}

// meanwhile runs a test of a script whose first reply to the latch mine is lost after then was called, and which it sends again when what
// that was given has been done by others.
func meanwhile(t *testing.T, script *scripts.Script, test func(f *fixture, calm, mine *countdown.Latch, then func(do func() error))) {
	t.Helper()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(locktest.RunsScript(script))
		test(f, countdown.New(f.user().Session, "a"), countdown.New(s.Session, "a"), func(do func() error) {
			s.arm(redistest.CutAfterRequest, 1)
			s.then(2, func() {
				if err := do(); err != nil {
					f.Error(err)
				}
			})
		})
	})
}
