// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/countdown"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// requireRefused checks that every call on a latch, and on its rounds, returns the error, and sends nothing.
func requireRefused(ctx context.Context, t *testing.T, server *redistest.Server, l *countdown.Latch, want error) {
	t.Helper()
	require.Empty(t, server.SentBy(func() {
		r, err := l.Start(ctx, 1)
		require.ErrorIs(t, err, want)
		require.Zero(t, r)
		r, err = l.Round(ctx)
		require.ErrorIs(t, err, want)
		require.Zero(t, r)
		require.ErrorIs(t, l.Reset(ctx), want)
		r = l.RoundOf(uint64(time.Now().UnixMicro()))
		_, err = r.CountDown(ctx, "x")
		require.ErrorIs(t, err, want)
		_, err = r.Count(ctx)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, r.Wait(ctx), want)
	}))
}

// P9: what is no name, no option or no session is the error of every call.
func TestABadLatchIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		l    *countdown.Latch
		want error
	}{
		"NoName":        {countdown.New(s, ""), signalbox.ErrBadName},
		"LongName":      {countdown.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"KeepShort":     {countdown.New(s, "a", countdown.Keep(time.Minute-1)), signalbox.ErrBadOption},
		"KeepLong":      {countdown.New(s, "a", countdown.Keep(30*24*time.Hour+1)), signalbox.ErrBadOption},
		"BadThenGood":   {countdown.New(s, "a", countdown.Keep(0), countdown.Keep(time.Hour)), signalbox.ErrBadOption},
		"NilSession":    {countdown.New(nil, "a"), signalbox.ErrBadOption},
		"NilClient":     {countdown.New(signalbox.NewSession(nil), "a"), signalbox.ErrBadOption},
		"ClosedSession": {countdown.New(closed, "a"), signalbox.ErrClosed},
		"BadPrefix":     {countdown.New(newSession(t, server, signalbox.WithPrefix("{x}")), "a"), signalbox.ErrBadOption},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, bad.l.Check(), bad.want)
			requireRefused(t.Context(), t, server, bad.l, bad.want)
		})
	}
}

func TestCheckOfAValidLatchReturnsNilAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	require.Empty(t, server.SentBy(func() {
		require.NoError(t, countdown.New(s, "a", countdown.Keep(time.Minute), nil, countdown.Keep(30*24*time.Hour)).Check())
	}))
}

// An ended context starts nothing, counts nothing and sends nothing; nor does a nil one.
func TestEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l := countdown.New(newSession(t, server), "a")
	requireRefused(locktest.Ended(), t, server, l, context.Canceled)
	requireRefused(nil, t, server, l, signalbox.ErrBadOption) //nolint:staticcheck // what is tested
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

func TestZeroRoundIsInvalid(t *testing.T) {
	t.Parallel()
	var r countdown.Round
	require.Zero(t, r.ID())
	_, err := r.CountDown(t.Context(), "x")
	require.ErrorIs(t, err, signalbox.ErrNoRound)
	_, err = r.Count(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNoRound)
	require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrNoRound)
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
