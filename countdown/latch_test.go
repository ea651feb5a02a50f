// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P1, P4: the last count-down opens the round for all waiters of all sessions, and nothing opens it before; the key ends.
func TestTheLastCountDownOpensTheRoundForAll(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newSession(t, server), newSession(t, server)
	r := mustStart(t, countdown.New(one, "a"), 3)
	joined, err := countdown.New(other, "a").Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.ID(), joined.ID())
	var waiting []<-chan error
	for range 50 {
		waiting = append(waiting, listening(t, one, r), listening(t, other, joined))
	}
	mustCount(t, r, 2, "x")
	mustCount(t, joined, 1, "y")
	left, err := joined.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, left)
	for _, w := range waiting {
		require.Empty(t, w)
	}
	mustCount(t, joined, 0, "z")
	for _, w := range waiting {
		require.NoError(t, redistest.Receive(t, "the opening", w))
	}
	locktest.RequireEnds(t, server)
}

// P5: an id counts once, whichever sessions send it and however often, also at the same time.
func TestAnIDCountsOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const n = 40
	r := mustStart(t, countdown.New(newSession(t, server), "a"), n)
	var all sync.WaitGroup
	var zeros atomic.Int32
	for range 4 {
		l := countdown.New(newSession(t, server), "a").RoundOf(r.ID())
		for range 3 {
			sent := ids(n - 1)
			rand.Shuffle(len(sent), func(i, j int) { sent[i], sent[j] = sent[j], sent[i] })
			all.Go(func() {
				for _, id := range sent {
					left, err := l.CountDown(t.Context(), id)
					if err != nil || left < 1 {
						zeros.Add(1)
						t.Error(left, err)
					}
				}
			})
		}
	}
	all.Wait()
	require.Zero(t, zeros.Load())
	left, err := r.Count(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, left)
	mustCount(t, r, 1, ids(n)[0])
	mustCount(t, r, 0, ids(n)[n-1])
}

// An id is any bytes, and cannot be confused with another field of the key.
func TestAnIDIsAnyBytes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	odd := []string{"round", "past", ":round", ":", "\x00", "\xff\xfe", "{x}", " ", longest, longest[1:]}
	r := mustStart(t, countdown.New(newSession(t, server), "a"), len(odd))
	for i, id := range odd {
		mustCount(t, r, len(odd)-1-i, id)
		mustCount(t, r, len(odd)-1-i, id)
	}
}

// open -> open: a repeat, or a count-down that is no longer needed, returns 0, and Wait returns at once.
func TestAnOpenRoundStaysOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	r := mustStart(t, l, 1)
	mustCount(t, r, 0, "x")
	mustCount(t, r, 0, "x")
	mustCount(t, r, 0, "y")
	require.NoError(t, r.Wait(t.Context()))
	require.NoError(t, l.Reset(t.Context()))
	joined, err := l.Round(t.Context())
	require.NoError(t, err)
	require.Equal(t, r.ID(), joined.ID())
	require.NoError(t, joined.Wait(t.Context()))
	left, err := joined.Count(t.Context())
	require.NoError(t, err)
	require.Zero(t, left)
	require.EqualValues(t, 2, server.MustDo(t, "HLEN", key), "the ids are gone")
}

// P6: all waiters, and a later count-down, get the error of a reset.
func TestResetIsReportedToAllWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newSession(t, server), newSession(t, server)
	l := countdown.New(one, "a")
	r := mustStart(t, l, 2)
	mustCount(t, r, 1, "x")
	theirs := countdown.New(other, "a")
	waiting := []<-chan error{listening(t, one, r), listening(t, other, theirs.RoundOf(r.ID()))}
	require.NoError(t, theirs.Reset(t.Context()))
	for _, w := range waiting {
		require.ErrorIs(t, redistest.Receive(t, "the reset", w), signalbox.ErrReset)
	}
	require.NoError(t, theirs.Reset(t.Context()), "once more")
	_, err := r.CountDown(t.Context(), "y")
	require.ErrorIs(t, err, signalbox.ErrReset)
	_, err = r.Count(t.Context())
	require.ErrorIs(t, err, signalbox.ErrReset)
	require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrReset)
	_, err = l.Round(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNoRound)
}

// P3, P8: rounds have IDs that rise. A late worker does not count in a later round, and learns how its own
// ended, however many came since.
func TestAnOldRoundIsKnownAsOld(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	open := mustStart(t, l, 1)
	mustCount(t, open, 0, "x")
	reset := mustStart(t, l, 1)
	require.NoError(t, l.Reset(t.Context()))
	const remembered = 32
	var last countdown.Round
	for range remembered {
		last = mustStart(t, l, 2)
		require.Greater(t, last.ID(), reset.ID())
		left, err := open.CountDown(t.Context(), "x")
		require.ErrorIs(t, err, signalbox.ErrRoundOver)
		require.Zero(t, left)
		require.NoError(t, open.Wait(t.Context()), "it has opened")
		left, err = open.Count(t.Context())
		require.NoError(t, err)
		require.Zero(t, left)
		_, err = reset.CountDown(t.Context(), "x")
		require.ErrorIs(t, err, signalbox.ErrReset)
		require.ErrorIs(t, reset.Wait(t.Context()), signalbox.ErrReset)
		mustCount(t, last, 1, "x")
		mustCount(t, last, 0, "y")
	}
	mustStart(t, l, 1)
	require.ErrorIs(t, reset.Wait(t.Context()), signalbox.ErrRoundLost, "forgotten, and not taken for open")
	require.ErrorIs(t, open.Wait(t.Context()), signalbox.ErrRoundLost, "nor is what was before it")
	require.NoError(t, last.Wait(t.Context()))
}

// P6: waiters of a round are not woken by what befalls another one, nor do they hang when theirs is followed.
func TestWaitersOfOneRoundDoNotHearOfAnother(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a")
	first := mustStart(t, l, 1)
	early := listening(t, s, first)
	mustCount(t, first, 0, "x")
	second := mustStart(t, l, 1)
	late := listening(t, s, second)
	require.NoError(t, redistest.Receive(t, "the first round", early))
	require.NoError(t, first.Wait(t.Context()))
	require.Empty(t, late)
	require.NoError(t, l.Reset(t.Context()))
	require.ErrorIs(t, redistest.Receive(t, "the second round", late), signalbox.ErrReset)
	require.NoError(t, first.Wait(t.Context()))
}

// P1: a latch has one round at a time.
func TestARunningRoundKeepsAnotherFromStarting(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	r := mustStart(t, l, 2)
	_, err := countdown.New(newSession(t, server), "a").Start(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrRunning)
	mustCount(t, r, 1, "x")
	require.NoError(t, l.Reset(t.Context()))
	require.Greater(t, mustStart(t, l, 1).ID(), r.ID())
}

// P1, P3: of many that start a round at the same time one does, each time, and later rounds have greater IDs.
func TestOneOfManyStarts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	latches := []*countdown.Latch{countdown.New(newSession(t, server), "a"), countdown.New(newSession(t, server), "a")}
	var last atomic.Uint64
	for range 20 {
		var started atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				r, err := latches[i%2].Start(t.Context(), 1)
				switch {
				case err == nil:
					started.Add(1)
					if before := last.Swap(r.ID()); r.ID() <= before {
						t.Error(r.ID(), before)
					}
				case !errors.Is(err, signalbox.ErrRunning):
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, started.Load())
		require.NoError(t, latches[0].Reset(t.Context()))
	}
}

// A barrier is rounds one after the other: no worker is left behind, whichever starts the next round.
func TestRoundsFollowEachOther(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	const parties, rounds = 4, 50
	latches := make([]*countdown.Latch, parties)
	for i := range latches {
		latches[i] = countdown.New(newSession(t, server), "a")
	}
	for range rounds {
		var all sync.WaitGroup
		r := mustStart(t, latches[0], parties)
		for i, l := range latches {
			all.Go(func() {
				mine := l.RoundOf(r.ID())
				if _, err := mine.CountDown(t.Context(), fmt.Sprint(i)); err != nil {
					t.Error(err)
				}
				if err := mine.Wait(locktest.Context(t)); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

// P2, P6: a round whose key is gone is reported as lost, and not waited for, whether it was running, open or
// reset.
func TestRoundThatIsGoneIsReported(t *testing.T) {
	t.Parallel()
	for name, over := range map[string]func(l *countdown.Latch, r countdown.Round) error{
		"Running": nil,
		"Open": func(_ *countdown.Latch, r countdown.Round) error {
			_, err := r.CountDown(context.Background(), "x")
			return err
		},
		"Reset": func(l *countdown.Latch, _ countdown.Round) error { return l.Reset(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := newSession(t, server)
			l := countdown.New(s, "a")
			r := mustStart(t, l, 1)
			var waiting <-chan error
			if over == nil {
				waiting = listening(t, s, r)
			} else {
				require.NoError(t, over(l, r))
			}
			server.MustDo(t, "DEL", key)
			if over == nil {
				require.ErrorIs(t, redistest.Receive(t, "the loss", waiting), signalbox.ErrRoundLost)
			}
			require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrRoundLost)
			_, err := r.CountDown(t.Context(), "x")
			require.ErrorIs(t, err, signalbox.ErrRoundLost)
			_, err = r.Count(t.Context())
			require.ErrorIs(t, err, signalbox.ErrRoundLost)
			_, err = l.Round(t.Context())
			require.ErrorIs(t, err, signalbox.ErrNoRound)
			next := mustStart(t, l, 1)
			require.Greater(t, next.ID(), r.ID())
			_, err = r.CountDown(t.Context(), "x")
			require.ErrorIs(t, err, signalbox.ErrRoundLost, "not taken for one that has opened")
		})
	}
}

// Use keeps a round: count-downs, and polls of waiters.
func TestUseKeepsARound(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	l := countdown.New(s, "a", countdown.Keep(time.Hour))
	r := mustStart(t, l, 2)
	other := countdown.New(newSession(t, server), "a").RoundOf(r.ID()) // the starter's word counts
	left := func() time.Duration {
		ms, _ := server.MustDo(t, "PTTL", key).(int64)
		return time.Duration(ms) * time.Millisecond
	}
	within := func() {
		t.Helper()
		require.InDelta(t, time.Hour, left(), float64(redistest.Patience))
	}
	within()
	for _, use := range []func(){
		func() { mustCount(t, other, 1, "x") },
		func() { _, _ = other.Count(t.Context()) },
		func() {
			ctx, cancel := context.WithCancel(t.Context())
			waiting := waitLater(ctx, other)
			redistest.Await(t, "a poll", func() bool { return left() > time.Minute })
			cancel()
			<-waiting
		},
		func() { mustCount(t, other, 0, "y") },
	} {
		server.MustDo(t, "PEXPIRE", key, time.Minute.Milliseconds())
		use()
		within()
	}
}

// The end of a context is the end of its wait, and of no other.
func TestAWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	other := listening(t, s, r)
	ctx, cancel := context.WithCancelCause(t.Context())
	waiting := waitLater(ctx, r)
	why := errors.New("no more")
	cancel(why)
	err := redistest.Receive(t, "the end of the wait", waiting)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, why)
	require.Empty(t, other)
	mustCount(t, r, 0, "x")
	require.NoError(t, redistest.Receive(t, "the opening", other))
}

// Close ends all waits, also those for a server, and leaves the round to other sessions.
func TestCloseRefusesWaiters(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s, other := newSession(t, server), newSession(t, server)
	r := mustStart(t, countdown.New(s, "a"), 1)
	theirs := countdown.New(other, "a").RoundOf(r.ID())
	waiting := []<-chan error{listening(t, s, r), waitLater(locktest.Context(t), r)}
	elsewhere := listening(t, other, theirs)
	require.NoError(t, s.Close(t.Context()))
	for _, w := range waiting {
		require.ErrorIs(t, redistest.Receive(t, "the end of a wait", w), signalbox.ErrClosed)
	}
	require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrClosed)
	mustCount(t, theirs, 0, "x")
	require.NoError(t, redistest.Receive(t, "the opening", elsewhere))
}
