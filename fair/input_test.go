// SPDX-License-Identifier: Apache-2.0

package fair_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/fair"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// requireRefused checks that every call on a lock answers the error, and sends nothing.
func requireRefused(t *testing.T, server *redistest.Server, mu *fair.Lock, want error) {
	t.Helper()
	require.Empty(t, server.SentBy(func() {
		require.ErrorIs(t, mu.Check(), want)
		lease, err := mu.Lock(t.Context())
		require.ErrorIs(t, err, want)
		require.Equal(t, signalbox.Lease{}, lease)
		lease, err = mu.TryLock(t.Context())
		require.ErrorIs(t, err, want)
		require.Equal(t, signalbox.Lease{}, lease)
		require.ErrorIs(t, mu.Do(t.Context(), func(context.Context, signalbox.Lease) error {
			t.Error("a lock that is none was held")
			return nil
		}), want)
		require.ErrorIs(t, panicOf(mu.Locker(t.Context()).Lock), want)
		for _, err := range mu.Waiters(t.Context()) {
			require.ErrorIs(t, err, want)
		}
	}))
}

// P9: what is no name, no option or no session is the error of every call.
func TestABadLockIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		mu   *fair.Lock
		want error
	}{
		"NoName":        {fair.New(s, ""), signalbox.ErrBadName},
		"LongName":      {fair.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"RenewedZero":   {fair.New(s, "a", signalbox.RenewedLease(0)), signalbox.ErrBadOption},
		"RenewedShort":  {fair.New(s, "a", signalbox.RenewedLease(99*time.Millisecond)), signalbox.ErrBadOption},
		"FixedNegative": {fair.New(s, "a", signalbox.FixedLease(-1)), signalbox.ErrBadOption},
		"FixedLong":     {fair.New(s, "a", signalbox.FixedLease(24*time.Hour+1)), signalbox.ErrBadOption},
		"MaxHoldZero":   {fair.New(s, "a", signalbox.MaxHold(0)), signalbox.ErrBadOption},
		"BadThenGood":   {fair.New(s, "a", signalbox.FixedLease(0), signalbox.FixedLease(time.Second)), signalbox.ErrBadOption},
		"NameAndOption": {fair.New(s, "", signalbox.FixedLease(0)), signalbox.ErrBadName},
		"NilSession":    {fair.New(nil, "a"), signalbox.ErrBadOption},
		"NilClient":     {fair.New(signalbox.NewSession(nil), "a"), signalbox.ErrBadOption},
		"ClosedSession": {fair.New(closed, "a"), signalbox.ErrClosed},
		"BadDefault":    {fair.New(locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.MaxHold(1))), "a"), signalbox.ErrBadOption},
		"BadPrefix":     {fair.New(locktest.SteadySession(t, server, signalbox.WithPrefix("{x}")), "a"), signalbox.ErrBadOption},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefused(t, server, bad.mu, bad.want)
		})
	}
}

func TestCheckOfAGoodLockAnswersNilAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	require.Empty(t, server.SentBy(func() { require.NoError(t, fair.New(s, "a").Check()) }))
}

// P10: contexts are checked like everything else.
func TestANilContextIsAnError(t *testing.T) {
	t.Parallel()
	mu := fair.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	var none context.Context
	_, err := mu.Lock(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	_, err = mu.TryLock(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorIs(t, mu.Do(none, nil), signalbox.ErrBadOption)
	require.ErrorIs(t, panicOf(mu.Locker(none).Lock), signalbox.ErrBadOption)
	for _, err := range mu.Waiters(none) {
		require.ErrorIs(t, err, signalbox.ErrBadOption)
	}
}

// P9: every name up to 512 bytes is a lock of its own, with a line and messages of its own.
func TestStrangeNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	names := []string{
		"a", "a:lock", "a:line", "a:lives", "a:grants:", "a}:line", "{a}", "}a{", "}", "{", "%7Ba%7D", "%", "\x00", "a\x00b", "\r\n", "*", "?",
		"\xff", "\xc3\x28", "\uFFFD", "日本", strings.Repeat("x", 512), strings.Repeat("{", 512),
	}
	leases := make([]signalbox.Lease, len(names))
	waiting := make([]<-chan locktest.Result[signalbox.Lease], len(names))
	for i, name := range names {
		var err error
		leases[i], err = fair.New(one, name).TryLock(t.Context())
		require.NoError(t, err, "%q is held with another name", name)
		waiting[i] = locktest.LaterWith(t.Context(), fair.New(other, name).Lock)
	}
	redistest.Await(t, "a line for each", func() bool { return len(server.Keys("*")) == 3*len(names) })
	for i, name := range names {
		require.False(t, locktest.IsClosed(waiting[i]), "%q", name)
		require.NoError(t, leases[i].Unlock())
		require.NoError(t, locktest.MustHave(t, waiting[i]).Unlock())
	}
}

// P9: somebody else's key is an error at once, and stays as it is.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	const stamp, id = "1780000000000000", "0123456789012345678901234567890123456789x"
	for name, set := range map[string][]any{
		"string": {"SET", "x"}, "held": {"SET", "sb1f"}, "garbage": {"SET", "sb1-garbage"}, "later": {"SET", "sb2f0123456789012345"},
		"other": {"SET", "sb1w0123456789012345"}, "list": {"RPUSH", "x", "y"}, "zset": {"ZADD", 1, "x"}, "hash": {"HSET", "x", "y"},
		"(reentrant)": {"SET", "sb1r" + stamp + id + "----------------------"},
		"(rwlock)":    {"ZADD", "-" + stamp, "sb1w", 1, "phase", "9" + stamp[1:], id + "a:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := locktest.Key(name)
			server.MustDo(t, append([]any{set[0], key}, set[1:]...)...)
			before := server.MustDo(t, "DUMP", key)
			mu := fair.New(s, name)
			for _, lock := range []func(context.Context) (signalbox.Lease, error){mu.TryLock, mu.Lock} {
				_, err := lock(t.Context())
				assert.ErrorIs(t, err, signalbox.ErrWrongKind)
				if strings.HasPrefix(name, "(") {
					assert.ErrorContains(t, err, name, "it says which kind has the name")
				}
			}
			assert.Equal(t, before, server.MustDo(t, "DUMP", key))
			assert.Equal(t, int64(-1), server.MustDo(t, "PTTL", key))
			assert.Zero(t, inLine(t, server, name))
			server.MustDo(t, "DEL", key) // or Close would wait a second for the end of what Lock began
		})
	}
	for _, part := range []string{"line", "lives"} {
		server.MustDo(t, "SET", "sb:{b}:"+part, "mine")
		holder := locktest.SteadySession(t, server)
		server.MustDo(t, "SET", locktest.Key("b"), "sb1f1780000000000000"+strings.Repeat("x", 41)+"9780000000000000------", "PX", 60_000)
		_, err := fair.New(holder, "b").Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind, part)
		require.Equal(t, "mine", server.MustDo(t, "GET", "sb:{b}:"+part))
		server.MustDo(t, "DEL", "sb:{b}:"+part)
	}
}

// P10: a right that is missing is an error at once, with the server's words, and leaves nothing.
func TestAMissingRightIsErrDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "held").Lock)
	for name, rules := range map[string][]any{
		"NoScripts": {"~*", "&*", "+@all", "-@scripting"},
		"NoKeys":    {"~other:*", "&*", "+@all"},
		"NoSet":     {"~*", "&*", "+@all", "-set", "-zadd"},
	} {
		server.MustDo(t, append([]any{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...)
		s := signalbox.NewSession(server.Client(t, func(o *rueidis.ClientOption) {
			signalbox.Tune(o)
			o.Username, o.Password = name, "secret"
		}))
		t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
		for _, lock := range []string{"free", "held"} {
			_, err := fair.New(s, lock).Lock(t.Context())
			require.ErrorIs(t, err, signalbox.ErrDenied, name)
		}
	}
	require.NoError(t, holder.Unlock())
	require.Zero(t, inLine(t, server, "held"))
}

// P6: where subscribing is denied the lock is waited for all the same.
func TestALockIsWaitedForWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.MustDo(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "&*", "+@all", "-subscribe")
	s := signalbox.NewSession(server.Client(t, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = "limited", "secret"
	}))
	t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
	for range 3 {
		holder := locktest.Must(t, fair.New(locktest.SteadySession(t, server), "a").Lock)
		waiting := queue(t.Context(), t, server, fair.New(s, "a"), "a", 1)
		require.NoError(t, holder.Unlock())
		require.NoError(t, locktest.MustHave(t, waiting).Unlock())
	}
}
