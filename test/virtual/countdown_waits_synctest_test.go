// SPDX-License-Identifier: Apache-2.0

package virtual_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/scripts"
)

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
