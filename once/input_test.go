// SPDX-License-Identifier: Apache-2.0

package once_test

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
	"github.com/signalbox-go/signalbox/once"
	"github.com/signalbox-go/signalbox/redisson"
	"github.com/signalbox-go/signalbox/semaphore"
)

// requireRefused checks that every call returns the error, and sends nothing.
func requireRefused(ctx context.Context, t *testing.T, server *redistest.Server, o *once.Once, want error) {
	t.Helper()
	require.Empty(t, server.SentBy(func() {
		for _, at := range []*once.Once{o, o.At(time.Unix(1, 0))} {
			require.Equal(t, got{isNil: true, err: do(ctx, at, never(t)).err}, do(ctx, at, never(t)))
			require.ErrorIs(t, do(ctx, at, never(t)).err, want)
			value, stored, err := at.Get(ctx)
			require.Nil(t, value)
			require.False(t, stored)
			require.ErrorIs(t, err, want)
			require.ErrorIs(t, at.Forget(ctx), want)
		}
	}))
}

// P9: what is no key, no option or no session is the error of every call.
func TestABadOnceIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server)
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		o    *once.Once
		want error
	}{
		"NoName":        {once.New(s, ""), signalbox.ErrBadName},
		"LongName":      {once.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"KeepShort":     {once.New(s, "a", once.Keep(time.Second-1)), signalbox.ErrBadOption},
		"KeepLong":      {once.New(s, "a", once.Keep(30*24*time.Hour+1)), signalbox.ErrBadOption},
		"BadThenGood":   {once.New(s, "a", once.Keep(0), once.Keep(time.Hour)), signalbox.ErrBadOption},
		"LeaseShort":    {once.New(s, "a", signalbox.WithRenewedLease(1)), signalbox.ErrBadOption},
		"LatchOption":   {once.New(s, "a", countdown.Keep(time.Hour)), signalbox.ErrBadOption},
		"PermitsOption": {once.New(s, "a", semaphore.ExactCapacity()), signalbox.ErrBadOption},
		"Redisson":      {once.New(s, "a", signalbox.WithLayout(redisson.Layout())), signalbox.ErrBadOption},
		"NilOnce":       {nil, signalbox.ErrBadOption},
		"ZeroOnce":      {new(once.Once), signalbox.ErrBadOption},
		"NilSession":    {once.New(nil, "a"), signalbox.ErrBadOption},
		"NilClient":     {once.New(signalbox.NewSession(nil), "a"), signalbox.ErrBadOption},
		"ClosedSession": {once.New(closed, "a"), signalbox.ErrClosed},
		"BadPrefix":     {once.New(session(t, server, signalbox.WithPrefix("{x}")), "a"), signalbox.ErrBadOption},
		"NoTick":        {once.New(s, "a").At(time.Time{}), signalbox.ErrBadOption},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, bad.o.Check(), bad.want)
			requireRefused(t.Context(), t, server, bad.o, bad.want)
		})
	}
	require.NoError(t, once.New(s, strings.Repeat("x", 512)).Check())
	require.ErrorIs(t, once.New(s, strings.Repeat("x", 512)).At(time.Now()).Check(), signalbox.ErrBadName)
}

// An ended context, a nil one and a nil function run nothing and send nothing.
func TestBadArgumentsSendNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := once.New(session(t, server), "a")
	requireRefused(locktest.Ended(), t, server, o, context.Canceled)
	requireRefused(nil, t, server, o, signalbox.ErrBadOption) //nolint:staticcheck // what is tested
	require.Empty(t, server.SentBy(func() { require.ErrorIs(t, do(t.Context(), o, nil).err, signalbox.ErrBadOption) }))
}

// Defaults of the session that another kind has are left out; Native takes Redisson back.
func TestDefaultsOfOtherKinds(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := session(t, server, signalbox.WithDefaults(countdown.Keep(time.Hour), semaphore.ExactCapacity(), once.Keep(2*time.Hour)))
	requireRan(t, "x", do(t.Context(), once.New(s, "a"), returns("x")))
	require.LessOrEqual(t, locktest.Integer(t, server.MustDo(t, "PTTL", key)), (2 * time.Hour).Milliseconds())
	java := session(t, server, signalbox.WithDefaults(signalbox.WithLayout(redisson.Layout())))
	require.ErrorIs(t, once.New(java, "b").Check(), signalbox.ErrBadOption)
	requireRan(t, "x", do(t.Context(), once.New(java, "b", signalbox.WithLayout(signalbox.Native())), returns("x")))
}

// P7: a stored outcome costs one round trip, and no lock; see the package.
func TestWhatCallsCost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	redistest.LoadScripts(t, server)
	proxy := redistest.NewProxy(t, server.Addr())
	s := session(t, proxy)
	o := once.New(s, "a", signalbox.WithFirstLease(time.Minute), signalbox.WithRenewedLease(time.Minute)) // nothing is renewed meanwhile
	_, _, err := o.Get(t.Context())                                                                       // the client connects
	require.NoError(t, err)
	require.NoError(t, locktest.Must(t, fairLock(s, "warm")).Unlock()) // the session asks for the time
	costs := func(want int, do func()) {
		t.Helper()
		proxy.ResetCount()
		do()
		require.Equal(t, want, proxy.Requests())
	}
	costs(5, func() { requireRan(t, "x", do(t.Context(), o, returns("x"))) })
	costs(1, func() { requireStored(t, "x", do(t.Context(), o, never(t))) })
	costs(1, func() { _, _, _ = o.Get(t.Context()) })
	costs(2, func() { require.NoError(t, o.Forget(t.Context())) })
	costs(1, func() { require.NoError(t, o.Forget(t.Context())) })
	requireRan(t, "y", do(t.Context(), o, returns("y")))
	calls := server.CommandStats()["set"].Calls
	requireStored(t, "y", do(t.Context(), o, never(t)))
	require.Equal(t, calls, server.CommandStats()["set"].Calls, "no lock")
}

// P9: a key that is no outcome's is reported, before a function runs and behind it, and left as it is.
func TestAForeignKeyIsUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := once.New(session(t, server), "a")
	for _, foreign := range []string{"SET", "RPUSH"} {
		r := do(t.Context(), o, func(context.Context, signalbox.Lease) ([]byte, error) {
			server.MustDo(t, foreign, key, "foreign")
			return []byte("x"), nil
		})
		require.ErrorIs(t, r.err, signalbox.ErrWrongKind)
		before := server.MustDo(t, "DUMP", key)
		require.ErrorIs(t, do(t.Context(), o, never(t)).err, signalbox.ErrWrongKind)
		_, _, err := o.Get(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorIs(t, o.Forget(t.Context()), signalbox.ErrWrongKind)
		require.Equal(t, before, server.MustDo(t, "DUMP", key))
		server.MustDo(t, "DEL", key)
	}
}
