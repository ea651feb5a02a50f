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
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

// P6, P10: a wait outlasts a server that does not reply, and its context ends it without an error of the polls.
func TestWaitOutlastsAServerThatDoesNotReply(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.user(), f.user()
		r := mustStart(f, countdown.New(s.Session, "a"), 1)
		waiting := waitsFor(f, r)
		ctx, cancel := context.WithCancel(f.Context())
		givenUp := f.later(func() error { return r.Wait(ctx) })
		s.goSilent()
		time.Sleep(10 * time.Second)
		require.Empty(f, waiting)
		cancel()
		err := redistest.Receive(f, "the end of the wait", givenUp)
		require.ErrorIs(f, err, context.Canceled)
		require.NotErrorIs(f, err, context.DeadlineExceeded)
		mustCount(f, countdown.New(calm.Session, "a").RoundOf(r.ID()), 0, "x")
		s.heal()
		opens(f, waiting)
	})
}

// P6: a message opens nothing by itself: it must have what only a reader of the key knows.
func TestForgedMessageOpensNothing(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		r := mustStart(f, countdown.New(f.user().Session, "a"), 1)
		waiting := waitsFor(f, r)
		for _, forged := range []string{
			fmt.Sprint(r.ID(), "o", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "x", "AAAAAAAAAAA"), fmt.Sprint(r.ID(), "o"), "", "x",
		} {
			require.Equal(f, 1, f.redis.Publish(locktest.Keys("a").Latch()+":ended", forged))
		}
		time.Sleep(10 * time.Second)
		require.Empty(f, waiting)
		mustCount(f, r, 0, "x")
		opens(f, waiting)
	})
}

// P6, P7: one message wakes the waiters of all sessions, without a poll.
func TestOneMessageWakesAllWaitersWithoutAPoll(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		const latency = 5 * time.Millisecond
		r := mustStart(f, countdown.New(f.user().Session, "a"), 1)
		returned := make(chan time.Time, 20)
		for range 2 {
			s := f.user()
			s.latency.Store(int64(latency))
			for range cap(returned) / 2 {
				waiting := waitsFor(f, countdown.New(s.Session, "a").RoundOf(r.ID()))
				go func() {
					opens(f, waiting)
					returned <- time.Now()
				}()
			}
		}
		began := time.Now()
		mustCount(f, r, 0, "x")
		for range cap(returned) {
			require.Equal(f, latency, redistest.Receive(f, "the opening", returned).Sub(began), "a poll takes two ways")
		}
	})
}

// A reply that is older than a round says nothing of it: its waiters are not notified that it is lost.
func TestOldReplySaysNothingOfANewRound(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.faultySession(locktest.RunsScript(scripts.CountdownRead)), countdown.New(f.user().Session, "a")
		first := mustStart(f, calm, 1)
		mine := countdown.New(s.Session, "a")
		early := waitsFor(f, mine.RoundOf(first.ID()))
		s.losesMessages.Store(true)
		s.arm(redistest.DelayReply, 1)
		s.delay.Store(int64(300 * time.Millisecond))
		s.awaitFault()
		mustCount(f, first, 0, "x")
		second := mustStart(f, calm, 1)
		late := waitsFor(f, mine.RoundOf(second.ID()))
		opens(f, early)
		mustCount(f, second, 0, "x")
		opens(f, late)
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
	remove := func(f *fixture, _ *countdown.Latch, _ countdown.Round) error {
		f.redis.Del("a")
		return nil
	}
	shared := []signalbox.LockOption{signalbox.WithLayout(redisson.Layout())}
	for name, c := range map[string]struct {
		options []signalbox.LockOption
		end     func(f *fixture, l *countdown.Latch, r countdown.Round) error
		want    error
	}{
		"Open": {nil, open, nil}, "Reset": {nil, reset, signalbox.ErrReset},
		"SharedOpen": {shared, open, nil}, "SharedReset": {shared, reset, nil}, "SharedDeleted": {shared, remove, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbleOfUsers(t, func(f *fixture) {
				l, s := countdown.New(f.user().Session, "a", c.options...), f.user()
				r := l.RoundOf(1)
				if c.options == nil {
					r = mustStart(f, l, 1)
				} else {
					require.NoError(f, f.redis.Set("a", "1")) // the Lua of the embedded server starts none
				}
				waiting := waitsFor(f, countdown.New(s.Session, "a", c.options...).RoundOf(r.ID()))
				time.Sleep(time.Second)
				s.losesMessages.Store(true)
				began := time.Now()
				require.NoError(f, c.end(f, l, r))
				require.ErrorIs(f, redistest.Receive(f, "a poll", waiting), c.want)
				require.LessOrEqual(f, time.Since(began), time.Second+10*time.Millisecond)
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
		"Start": {scripts.Load("redisson/latch-start", 1), "", func(ctx context.Context, l *countdown.Latch) error {
			_, err := l.Start(ctx, 7)
			return err
		}},
		"CountDown": {scripts.Load("redisson/latch-count", 1), "3", func(ctx context.Context, l *countdown.Latch) error {
			_, err := l.RoundOf(1).CountDown(ctx, "x")
			return err
		}},
		"Reset": {scripts.Load("redisson/latch-reset", 1), "3", func(ctx context.Context, l *countdown.Latch) error { return l.Reset(ctx) }},
	} {
		for kind, isDone := range map[redistest.FaultKind]bool{
			redistest.CutAfterRequest: true, redistest.SwallowReply: true, redistest.CutBeforeRequest: false, redistest.SwallowRequest: false,
		} {
			t.Run(name+kind.String(), func(t *testing.T) {
				t.Parallel()
				bubbleOfUsers(t, func(f *fixture) {
					s := f.faultySession(locktest.RunsScript(c.script))
					if c.before != "" {
						require.NoError(f, f.redis.Set("a", c.before))
					}
					s.arm(kind, 1)
					err := c.step(f.Context(), countdown.New(s.Session, "a", signalbox.WithLayout(redisson.Layout())))
					require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
					time.Sleep(time.Minute)
					after, _ := f.redis.Get("a")
					require.Equal(f, isDone, after != c.before)
					require.Equal(f, 1, s.requestCount())
				})
			})
		}
	}
}

// P4, P7: a wait that was given up leaves no subscription and no poll behind, and neither do all waiters of a round once it
// is open.
func TestNothingRemainsOfWaitsThatEnded(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.user()
		r := mustStart(f, countdown.New(s.Session, "a"), 1)
		ctx, cancel := context.WithCancel(f.Context())
		var waiting []<-chan error
		for range 50 {
			waiting = append(waiting, f.later(func() error { return r.Wait(ctx) }))
		}
		require.Len(f, f.redis.PubSubChannels(""), 1)
		idle := func() {
			f.Helper()
			time.Sleep(10 * time.Second) // a subscription lingers for three
			require.Zero(f, locktest.Channels(s.Session))
			require.Empty(f, f.redis.PubSubChannels(""))
			require.Zero(f, goroutines())
			before := f.commands.Load()
			time.Sleep(time.Minute)
			require.Equal(f, before, f.commands.Load())
		}
		cancel()
		for _, ended := range waiting {
			require.ErrorIs(f, redistest.Receive(f, "the end of a wait", ended), context.Canceled)
		}
		idle()
		open := waitsFor(f, r)
		mustCount(f, r, 0, "x")
		opens(f, open)
		idle()
	})
}
