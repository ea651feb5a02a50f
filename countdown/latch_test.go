// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

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

func TestABadNumberOrIDIsRefused(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	r := mustStart(t, l, countdown.MaxCount)
	require.NoError(t, l.Reset(t.Context()))
	require.Empty(t, server.SentBy(func() {
		for _, n := range []int{0, -1, countdown.MaxCount + 1} {
			_, err := l.Start(t.Context(), n)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
		}
		for _, id := range []string{"", longest + "x"} {
			_, err := r.CountDown(t.Context(), id)
			require.ErrorIs(t, err, signalbox.ErrBadOption)
		}
		for _, id := range []uint64{0, 1e16, 1 << 63, ^uint64(0)} {
			require.ErrorIs(t, l.RoundOf(id).Wait(t.Context()), signalbox.ErrBadOption)
		}
	}))
	require.ErrorIs(t, l.RoundOf(1).Wait(t.Context()), signalbox.ErrRoundLost)
	require.ErrorIs(t, l.RoundOf(r.ID()+1).Wait(t.Context()), signalbox.ErrRoundLost)
}

// P9: a key that is no latch's is reported, and left as it is.
func TestForeignKeyIsReportedAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	r := l.RoundOf(1)
	for _, foreign := range [][]any{{"HSET", key, "round", "x"}, {"SET", key, "x"}} {
		server.MustDo(t, "DEL", key)
		server.MustDo(t, foreign...)
		before := server.MustDo(t, "DUMP", key)
		for name, call := range map[string]func(context.Context) error{
			"Start": func(ctx context.Context) error { _, err := l.Start(ctx, 1); return err },
			"Round": func(ctx context.Context) error { _, err := l.Round(ctx); return err },
			"Reset": l.Reset, "Wait": r.Wait,
			"CountDown": func(ctx context.Context) error { _, err := r.CountDown(ctx, "x"); return err },
			"Count":     func(ctx context.Context) error { _, err := r.Count(ctx); return err },
		} {
			require.ErrorIs(t, call(locktest.Context(t)), signalbox.ErrWrongKind, name)
		}
		require.Equal(t, before, server.MustDo(t, "DUMP", key))
		require.EqualValues(t, -1, server.MustDo(t, "PTTL", key))
	}
}
