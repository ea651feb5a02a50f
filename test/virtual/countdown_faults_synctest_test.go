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

// P6, P10: a wait outlasts a server that does not reply, and its context ends it without an error of the polls.
func TestWaitOutlastsAServerThatDoesNotReply(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s, calm := w.user(), w.user()
		r := mustStart(w, countdown.New(s.Session, "a"), 1)
		waiting := waitsFor(w, r)
		ctx, cancel := context.WithCancel(w.Context())
		givenUp := w.later(func() error { return r.Wait(ctx) })
		s.goSilent()
		time.Sleep(10 * time.Second)
		require.Empty(w, waiting)
		cancel()
		err := redistest.Receive(w, "the end of the wait", givenUp)
		require.ErrorIs(w, err, context.Canceled)
		require.NotErrorIs(w, err, context.DeadlineExceeded)
		mustCount(w, countdown.New(calm.Session, "a").RoundOf(r.ID()), 0, "x")
		s.heal()
		opens(w, waiting)
	})
}

// P6: Close ends a count-down that waits for the server.
func TestCloseEndsACountDownThatWaitsForTheServer(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s := w.user()
		r := mustStart(w, countdown.New(s.Session, "a"), 1)
		s.refuses.Store(true)
		s.cut()
		counted := w.later(func() error {
			_, err := r.CountDown(context.Background(), "x")
			return err
		})
		require.Empty(w, counted)
		_ = s.Close(endedContext())
		require.ErrorIs(w, redistest.Receive(w, "the end of the count-down", counted), signalbox.ErrClosed)
	})
}

// P6: a message opens nothing by itself: it must have what only a reader of the key knows.
func TestForgedMessageOpensNothing(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		r := mustStart(w, countdown.New(w.user().Session, "a"), 1)
		waiting := waitsFor(w, r)
		for _, forged := range []string{
			fmt.Sprint(r.ID(), "o", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "x", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "o"), "", "x",
		} {
			require.Equal(w, 1, w.redis.Publish(locktest.Keys("a").Latch()+":ended", forged))
		}
		time.Sleep(10 * time.Second)
		require.Empty(w, waiting)
		mustCount(w, r, 0, "x")
		opens(w, waiting)
	})
}

// P6, P7: one message wakes the waiters of all sessions, without a poll.
func TestOneMessageWakesAllWaitersWithoutAPoll(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		const latency = 5 * time.Millisecond
		r := mustStart(w, countdown.New(w.user().Session, "a"), 1)
		returned := make(chan time.Time, 20)
		for range 2 {
			s := w.user()
			s.latency.Store(int64(latency))
			for range cap(returned) / 2 {
				waiting := waitsFor(w, countdown.New(s.Session, "a").RoundOf(r.ID()))
				go func() {
					opens(w, waiting)
					returned <- time.Now()
				}()
			}
		}
		began := time.Now()
		mustCount(w, r, 0, "x")
		for range cap(returned) {
			require.Equal(w, latency, redistest.Receive(w, "the opening", returned).Sub(began), "a poll takes two ways")
		}
	})
}

// A reply that is older than a round says nothing of it: its waiters are not notified that it is lost.
func TestOldReplySaysNothingOfANewRound(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s, calm := w.faultySession(locktest.RunsScript(scripts.CountdownRead)), countdown.New(w.user().Session, "a")
		first := mustStart(w, calm, 1)
		mine := countdown.New(s.Session, "a")
		early := waitsFor(w, mine.RoundOf(first.ID()))
		s.losesMessages.Store(true)
		s.arm(redistest.DelayReply, 1)
		s.delay.Store(int64(300 * time.Millisecond))
		s.awaitFault()
		mustCount(w, first, 0, "x")
		second := mustStart(w, calm, 1)
		late := waitsFor(w, mine.RoundOf(second.ID()))
		opens(w, early)
		mustCount(w, second, 0, "x")
		opens(w, late)
	})
}

// P6: a waiter whose message is lost finds out by a poll, a second later at most: of an opening, of a reset, and, in the
// layout of Redisson, of a key that was deleted.
func TestWaiterFindsALostMessageByAPoll(t *testing.T) {
	t.Parallel()
	open := func(_ *fixture, _ *countdown.Latch, r countdown.Round) error {
		_, err := r.CountDown(context.Background(), "x")
		return err
	}
	reset := func(_ *fixture, l *countdown.Latch, _ countdown.Round) error { return l.Reset(context.Background()) }
	remove := func(w *fixture, _ *countdown.Latch, _ countdown.Round) error {
		w.redis.Del("a")
		return nil
	}
	shared := []signalbox.LockOption{signalbox.WithLayout(signalbox.Redisson())}
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		end     func(w *fixture, l *countdown.Latch, r countdown.Round) error
		want    error
	}{
		"Open": {nil, open, nil}, "Reset": {nil, reset, signalbox.ErrReset},
		"SharedOpen": {shared, open, nil}, "SharedReset": {shared, reset, nil}, "SharedDeleted": {shared, remove, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(w *fixture) {
				l, s := countdown.New(w.user().Session, "a", c.options...), w.user()
				r := l.RoundOf(1)
				if c.options == nil {
					r = mustStart(w, l, 1)
				} else {
					require.NoError(w, w.redis.Set("a", "1")) // the Lua of the embedded server starts none
				}
				waiting := waitsFor(w, countdown.New(s.Session, "a", c.options...).RoundOf(r.ID()))
				time.Sleep(time.Second)
				s.losesMessages.Store(true)
				began := time.Now()
				require.NoError(w, c.end(w, l, r))
				require.ErrorIs(w, redistest.Receive(w, "a poll", waiting), c.want)
				require.LessOrEqual(w, time.Since(began), time.Second+10*time.Millisecond)
			})
		})
	}
}

// P5: a step of a latch in the layout of Redisson is sent once, however its reply is lost: it would count twice. Its caller
// gets ErrUnconfirmed.
func TestStepOfASharedLatchIsSentOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script *scripts.Script
		before string
		step   func(ctx context.Context, l *countdown.Latch) error
	}{
		"Start": {scripts.RedissonLatchStart, "", func(ctx context.Context, l *countdown.Latch) error {
			_, err := l.Start(ctx, 7)
			return err
		}},
		"CountDown": {scripts.RedissonLatchCount, "3", func(ctx context.Context, l *countdown.Latch) error {
			_, err := l.RoundOf(1).CountDown(ctx, "x")
			return err
		}},
		"Reset": {scripts.RedissonLatchReset, "3", func(ctx context.Context, l *countdown.Latch) error { return l.Reset(ctx) }},
	} {
		for kind, isDone := range map[redistest.FaultKind]bool{
			redistest.CutAfterRequest: true, redistest.SwallowReply: true, redistest.CutBeforeRequest: false, redistest.SwallowRequest: false,
		} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(w *fixture) {
					s := w.faultySession(locktest.RunsScript(c.script))
					if c.before != "" {
						require.NoError(w, w.redis.Set("a", c.before))
					}
					s.arm(kind, 1)
					err := c.step(w.Context(), countdown.New(s.Session, "a", signalbox.WithLayout(signalbox.Redisson())))
					require.ErrorIs(w, err, signalbox.ErrUnconfirmed)
					time.Sleep(time.Minute)
					after, _ := w.redis.Get("a")
					require.Equal(w, isDone, after != c.before)
					require.Equal(w, 1, s.requestCount())
				})
			})
		}
	}
}

// P4, P7: a wait that was given up leaves no subscription and no poll behind, and neither do all waiters of a round once it
// is open.
func TestNothingRemainsOfWaitsThatEnded(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(w *fixture) {
		s := w.user()
		r := mustStart(w, countdown.New(s.Session, "a"), 1)
		ctx, cancel := context.WithCancel(w.Context())
		var waiting []<-chan error
		for range 50 {
			waiting = append(waiting, w.later(func() error { return r.Wait(ctx) }))
		}
		require.Len(w, w.redis.PubSubChannels(""), 1)
		idle := func() {
			w.Helper()
			time.Sleep(10 * time.Second) // a subscription lingers for three
			require.Zero(w, locktest.Channels(s.Session))
			require.Empty(w, w.redis.PubSubChannels(""))
			require.Zero(w, goroutines())
			before := w.commands.Load()
			time.Sleep(time.Minute)
			require.Equal(w, before, w.commands.Load())
		}
		cancel()
		for _, ended := range waiting {
			require.ErrorIs(w, redistest.Receive(w, "the end of a wait", ended), context.Canceled)
		}
		idle()
		open := waitsFor(w, r)
		mustCount(w, r, 0, "x")
		opens(w, open)
		idle()
	})
}
