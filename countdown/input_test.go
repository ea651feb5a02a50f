// SPDX-License-Identifier: Apache-2.0

package countdown_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
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
	s := newSession(t, server)
	for name, command := range map[string][]any{ //nolint:paralleltest // one server
		"string": {"SET", "", "x"}, "list": {"RPUSH", "", "x"}, "hash": {"HSET", "", "field", "x"},
		"round": {"HSET", "", "round", "x"}, "zset": {"ZADD", "", 1, "x"},
	} {
		t.Run(name, func(t *testing.T) {
			command[1] = locktest.Keys(name).Latch()
			server.MustDo(t, command...)
			before := server.MustDo(t, "DUMP", locktest.Keys(name).Latch())
			l := countdown.New(s, name)
			_, err := l.Start(t.Context(), 1)
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
			_, err = l.Round(t.Context())
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
			require.ErrorIs(t, l.Reset(t.Context()), signalbox.ErrWrongKind)
			r := l.RoundOf(1)
			_, err = r.CountDown(t.Context(), "x")
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
			_, err = r.Count(t.Context())
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
			err = r.Wait(locktest.Context(t))
			require.ErrorIs(t, err, signalbox.ErrWrongKind)
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, before, server.MustDo(t, "DUMP", locktest.Keys(name).Latch()))
			require.EqualValues(t, -1, server.MustDo(t, "PTTL", locktest.Keys(name).Latch()))
		})
	}
}

// P9: names that look like keys, or like each other, are separate latches; none of them is the lock of that
// name.
func TestEveryNameIsALatchOfItsOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	seen := make(map[string]bool)
	for _, name := range []string{"a", "a:latch", "{a}", "a}:latch", "%7Ba%7D", "\x00", "*", "a{"} {
		r := mustStart(t, countdown.New(s, name), 1)
		waiting := waitLater(locktest.Context(t), r)
		mustCount(t, r, 0, "x")
		require.NoError(t, redistest.Receive(t, "the opening", waiting))
		seen[name] = true
		require.Len(t, server.Keys("*"), len(seen))
	}
	hidden := newSession(t, server, signalbox.WithHashedNames())
	r := mustStart(t, countdown.New(hidden, "secret-name"), 1)
	_, err := countdown.New(hidden, "secret-name").Start(t.Context(), 1)
	require.ErrorIs(t, err, signalbox.ErrRunning)
	require.NotContains(t, err.Error(), "secret-name")
	mustCount(t, r, 0, "x")
	for _, hashed := range server.Keys("*") {
		require.NotContains(t, hashed, "secret-name")
	}
}

// P7: a step is one round trip; see the package.
func TestWhatStepsCost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	s := newSession(t, proxy)
	l := countdown.New(s, "a")
	_, err := l.Round(t.Context()) // the client connects
	require.ErrorIs(t, err, signalbox.ErrNoRound)
	costs := func(want int, do func()) {
		t.Helper()
		proxy.ResetCount()
		do()
		require.Equal(t, want, proxy.Requests())
	}
	var r countdown.Round
	costs(2, func() { r = mustStart(t, l, 2) }) // the first of a session asks for the time as well
	costs(1, func() { mustCount(t, r, 1, "x") })
	costs(1, func() { _, _ = r.Count(t.Context()) })
	costs(1, func() { mustCount(t, r, 0, "y") })
	costs(1, func() { r = mustStart(t, l, 1) })
	costs(2, func() { require.NoError(t, l.Reset(t.Context())) })
	proxy.ResetCount()
	began := time.Now()
	require.ErrorIs(t, r.Wait(t.Context()), signalbox.ErrReset)
	repeated := 2 * int(time.Since(began)/time.Second) // a reply that needs a second is not waited for
	require.LessOrEqual(t, proxy.Requests(), 2+repeated, "one more, if the subscription was faster than the reply")
}

// P10: a client that was closed is the end of the session.
func TestClosedClientIsAnError(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var client rueidis.Client
	s := newSession(t, dialerOf(func(tb testing.TB, mod func(*rueidis.ClientOption)) rueidis.Client {
		tb.Helper()
		client = server.Client(tb, mod)
		return client
	}))
	r := mustStart(t, countdown.New(s, "a"), 1)
	client.Close()
	_, err := r.CountDown(t.Context(), "x")
	require.ErrorIs(t, err, signalbox.ErrClosed)
	require.ErrorIs(t, r.Wait(locktest.Context(t)), signalbox.ErrClosed)
}
