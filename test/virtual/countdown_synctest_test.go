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
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/scripts"
)

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

// P5: a count-down that opened its round returns 0 though its reply is lost and another round has begun by the time that it is sent again.
func TestLostOpeningIsNotTakenForALateWorker(t *testing.T) {
	t.Parallel()
	meanwhile(t, proto.CountdownCountScript, func(f *fixture, calm, mine *countdown.Latch, then func(do func() error)) {
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

// meanwhile runs a test of a script whose first reply to the latch mine is lost after then was called, and which it sends again when what
// that was given has been done by others.
func meanwhile(t *testing.T, script *scripts.Script, test func(f *fixture, calm, mine *countdown.Latch, then func(do func() error))) {
	t.Helper()
	bubbleOfUsers(t, func(f *fixture) {
		s := f.faultySession(script)
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

// A reply that is older than a round says nothing of it: its waiters are not notified that it is lost.
func TestOldReplySaysNothingOfANewRound(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		s, calm := f.faultySession(proto.CountdownReadScript), countdown.New(f.user().Session, "a")
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
					s := f.faultySession(c.script)
					if c.before != "" {
						require.NoError(f, f.redis.Set("a", c.before))
					}
					s.arm(kind, 1)
					err := c.step(f.Context(), countdown.New(s.Session, "a", signalbox.WithLayout(redisson.Layout())))
					require.ErrorIs(f, err, signalbox.ErrUnconfirmed)
					time.Sleep(time.Minute)
					after, _ := f.redis.Get("a")
					require.Equal(f, isDone, after != c.before)
					require.Equal(f, 1, s.called())
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
			require.Zero(f, locktest.Goroutines())
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

// P6: a message that is faster than the reply to the first poll names a round that the waiter does not know
// yet. It is not believed, but it is not forgotten.
func TestAMessageBeforeTheFirstReplyLeadsToAPoll(t *testing.T) {
	t.Parallel()
	bubbleOfUsers(t, func(f *fixture) {
		starter := f.user().Session
		s, link := f.open()
		l, mine := countdown.New(starter, "a"), countdown.New(s, "a")
		open := func(r countdown.Round) {
			f.Helper()
			_, err := r.CountDown(f.Context(), "x")
			require.NoError(f, err)
		}
		first, err := l.Start(f.Context(), 1)
		require.NoError(f, err)
		ends := make(chan error, 1)
		go func() { ends <- mine.RoundOf(first.ID()).Wait(f.Context()) }()
		time.Sleep(time.Second)
		open(first)
		require.NoError(f, <-ends) // and the channel lingers

		const slow = 300 * time.Millisecond
		second, err := l.Start(f.Context(), 1)
		require.NoError(f, err)
		link.latency.Store(int64(slow))
		began := time.Now()
		go func() { ends <- mine.RoundOf(second.ID()).Wait(f.Context()) }()
		time.Sleep(slow + slow/2) // the poll was executed, and its reply is on its way
		link.latency.Store(0)
		open(second)
		require.NoError(f, <-ends)
		require.GreaterOrEqual(f, time.Since(began), 2*slow, "the message alone is no proof")
		require.Less(f, time.Since(began), 2*slow+100*time.Millisecond, "long before the next poll")
	})
}

// Whatever use it was, and whenever it came, a round is kept for as long as it was asked for after it, but for a sixtieth, and
// not for longer: one that runs, and one that is open, of which late workers ask.
func TestARoundIsKeptAfterEachUse(t *testing.T) {
	t.Parallel()
	const keep = time.Hour
	uses := map[string]func(l *countdown.Latch, r countdown.Round, f *fixture) error{
		"CountDown": func(_ *countdown.Latch, r countdown.Round, f *fixture) error {
			_, err := r.CountDown(f.Context(), "x")
			return err
		},
		"Count": func(_ *countdown.Latch, r countdown.Round, f *fixture) error {
			_, err := r.Count(f.Context())
			return err
		},
		"Round": func(l *countdown.Latch, _ countdown.Round, f *fixture) error {
			_, err := l.Round(f.Context())
			return err
		},
	}
	for name, use := range uses {
		for _, open := range []bool{false, true} {
			bubbleOfUsers(t, func(f *fixture) {
				s := f.user().Session
				l := countdown.New(s, "a", countdown.Keep(keep))
				total := 2
				if open {
					total = 1
				}
				r, err := l.Start(f.Context(), total)
				require.NoError(f, err)
				_, err = r.CountDown(f.Context(), "x")
				require.NoError(f, err)
				for _, after := range []time.Duration{keep / 100, keep / 4, keep / 2, keep * 3 / 4, keep * 58 / 60} {
					time.Sleep(after)
					require.NoError(f, use(l, r, f), "%s, open: %t, after %v", name, open, after)
				}
				time.Sleep(keep * 58 / 60)
				require.NoError(f, use(l, r, f), "%s, open: %t", name, open)
				time.Sleep(keep + time.Second)
				require.Error(f, use(l, r, f), "%s, open: %t", name, open)
				require.ErrorIs(f, r.Wait(f.Context()), signalbox.ErrRoundLost)
			})
		}
	}
}
