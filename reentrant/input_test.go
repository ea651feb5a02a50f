// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// requireRefused checks that every call on a lock answers the error, and sends nothing.
func requireRefused(t *testing.T, server *redistest.Server, mu *reentrant.Lock, want error) {
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
		_, err = mu.Holder(t.Context())
		require.ErrorIs(t, err, want)
		locked, err := mu.IsLocked(t.Context())
		require.ErrorIs(t, err, want)
		require.False(t, locked)
		require.ErrorIs(t, mu.ForceUnlock(t.Context()), want)
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
		mu   *reentrant.Lock
		want error
	}{
		"NoName":          {reentrant.New(s, ""), signalbox.ErrBadName},
		"LongName":        {reentrant.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"RenewedZero":     {reentrant.New(s, "a", signalbox.RenewedLease(0)), signalbox.ErrBadOption},
		"RenewedNegative": {reentrant.New(s, "a", signalbox.RenewedLease(-time.Second)), signalbox.ErrBadOption},
		"RenewedShort":    {reentrant.New(s, "a", signalbox.RenewedLease(99*time.Millisecond)), signalbox.ErrBadOption},
		"RenewedLong":     {reentrant.New(s, "a", signalbox.RenewedLease(24*time.Hour+1)), signalbox.ErrBadOption},
		"FixedZero":       {reentrant.New(s, "a", signalbox.FixedLease(0)), signalbox.ErrBadOption},
		"FixedNegative":   {reentrant.New(s, "a", signalbox.FixedLease(-1)), signalbox.ErrBadOption},
		"FixedShort":      {reentrant.New(s, "a", signalbox.FixedLease(99*time.Millisecond)), signalbox.ErrBadOption},
		"FixedLong":       {reentrant.New(s, "a", signalbox.FixedLease(24*time.Hour+1)), signalbox.ErrBadOption},
		"MaxHoldZero":     {reentrant.New(s, "a", signalbox.MaxHold(0)), signalbox.ErrBadOption},
		"MaxHoldNegative": {reentrant.New(s, "a", signalbox.MaxHold(-time.Hour)), signalbox.ErrBadOption},
		"MaxHoldShort":    {reentrant.New(s, "a", signalbox.MaxHold(99*time.Millisecond)), signalbox.ErrBadOption},
		"MaxHoldLong":     {reentrant.New(s, "a", signalbox.MaxHold(24*time.Hour+1)), signalbox.ErrBadOption},
		"NoReplicas":      {reentrant.New(s, "a", signalbox.WaitReplicas(0, time.Second)), signalbox.ErrBadOption},
		"ManyReplicas":    {reentrant.New(s, "a", signalbox.WaitReplicas(101, time.Second)), signalbox.ErrBadOption},
		"ReplicasAtOnce":  {reentrant.New(s, "a", signalbox.WaitReplicas(1, 999*time.Microsecond)), signalbox.ErrBadOption},
		"ReplicasForEver": {reentrant.New(s, "a", signalbox.RenewedLease(time.Hour), signalbox.WaitReplicas(1, time.Minute+1)), signalbox.ErrBadOption},
		"ReplicasForALease": {
			reentrant.New(s, "a", signalbox.WaitReplicas(1, time.Second), signalbox.FixedLease(time.Second)), signalbox.ErrBadOption,
		},
		"ReplicasForAMaxHold": {
			reentrant.New(s, "a", signalbox.WaitReplicas(1, time.Second), signalbox.MaxHold(time.Second)), signalbox.ErrBadOption,
		},
		"BadThenGood":   {reentrant.New(s, "a", signalbox.FixedLease(0), signalbox.FixedLease(time.Second)), signalbox.ErrBadOption},
		"NameAndOption": {reentrant.New(s, "", signalbox.FixedLease(0)), signalbox.ErrBadName},
		"OptionAndName": {reentrant.New(s, "", signalbox.FixedLease(0)), signalbox.ErrBadOption},
		"NilSession":    {reentrant.New(nil, "a"), signalbox.ErrBadOption},
		"NilClient":     {reentrant.New(signalbox.NewSession(nil), "a"), signalbox.ErrBadOption},
		"ClosedSession": {reentrant.New(closed, "a"), signalbox.ErrClosed},
		"BadDefault": {
			reentrant.New(locktest.SteadySession(t, server, signalbox.WithDefaults(signalbox.MaxHold(1))), "a"), signalbox.ErrBadOption,
		},
		"BadLabel":  {reentrant.New(locktest.SteadySession(t, server, signalbox.WithLabel("a\nb")), "a"), signalbox.ErrBadOption},
		"BadPrefix": {reentrant.New(locktest.SteadySession(t, server, signalbox.WithPrefix("{x}")), "a"), signalbox.ErrBadOption},
	} {
		t.Run(name, func(t *testing.T) {
			requireRefused(t, server, bad.mu, bad.want)
		})
	}
}

// P10: contexts are checked like everything else.
func TestANilContextIsAnError(t *testing.T) {
	t.Parallel()
	mu := reentrant.New(locktest.SteadySession(t, redistest.Start(t)), "a")
	var none context.Context
	_, err := mu.Lock(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	_, err = mu.TryLock(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorIs(t, mu.Do(none, nil), signalbox.ErrBadOption)
	_, err = mu.Holder(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	_, err = mu.IsLocked(none)
	require.ErrorIs(t, err, signalbox.ErrBadOption)
	require.ErrorIs(t, mu.ForceUnlock(none), signalbox.ErrBadOption)
}

func TestAnEndedContextAsksNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	why := errors.New("no longer wanted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	require.Empty(t, server.SentBy(func() {
		_, err := mu.Holder(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, why)
		_, err = mu.IsLocked(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, mu.ForceUnlock(ctx), context.Canceled)
	}))
}

func TestTheShortestAndLongestTermsWork(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	for _, d := range []time.Duration{100 * time.Millisecond, 24 * time.Hour} {
		for _, option := range []signalbox.LockOption{
			signalbox.RenewedLease(d), signalbox.FixedLease(d), signalbox.MaxHold(d),
		} {
			lease := locktest.Must(t, reentrant.New(s, "a", option, nil).Lock)
			deadline := lease.Deadline()
			require.LessOrEqual(t, time.Until(deadline), d)
			if err := errors.Join(lease.Err(), lease.Unlock()); time.Now().Before(deadline) { // a tenth of a second may be over
				require.NoError(t, err)
			}
		}
	}
}

// P9: every name up to 512 bytes is a lock of its own, whatever is in it.
func TestStrangeNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	names := []string{
		"a", "A", " a", "a ", "a:lock", "a}:lock", "{a}", "{a", "a}", "}a", "}", "{", "{}", "}{", "%7Ba%7D", "%7ba", "%", "%%", "%25",
		"\x00", "a\x00", "\x00a", "a\x00b", "a\nb", "\r\n", "\x7f", "*", "?", "[a]", "a*",
		"\xff", "\xfe", "\xc3\x28", "a\x80", "\uFFFD", "\xef\xbf", "é", "e\u0301",
		"sb:{a}:lock", "a:unlocked", "日本", strings.Repeat("x", 512), strings.Repeat("{", 512), strings.Repeat("\xff", 512),
	}
	leases := make([]signalbox.Lease, len(names))
	for i, name := range names {
		var err error
		leases[i], err = reentrant.New(one, name).TryLock(t.Context())
		require.NoError(t, err, "%q is held with another name", name)
	}
	require.Len(t, server.Keys("*"), len(names))
	for i, name := range names {
		_, err := reentrant.New(other, name).TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrHeld, "%q", name)
		require.NoError(t, leases[i].Unlock())
		lease, err := reentrant.New(other, name).TryLock(t.Context())
		require.NoError(t, err, "%q", name)
		require.NoError(t, lease.Unlock())
	}
}

// P9: and its messages are its own, too.
func TestAStrangeNameIsWaitedFor(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := locktest.SteadySession(t, server), locktest.SteadySession(t, server)
	for _, name := range []string{"}a{", "\x00", "\xff*", "%"} {
		holder := locktest.Must(t, reentrant.New(one, name).Lock)
		waiting := locktest.LaterWith(t.Context(), reentrant.New(other, name).Lock)
		redistest.Await(t, "a subscription", func() bool {
			channels, _ := server.MustDo(t, "PUBSUB", "CHANNELS").([]any)
			return len(channels) > 0
		})
		require.NoError(t, holder.Unlock())
		got := locktest.MustHave(t, waiting)
		require.NoError(t, got.Unlock())
	}
}

// P9: sessions with different prefixes do not meet.
func TestPrefixesKeepSessionsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	other := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server, signalbox.WithPrefix("")), "a").Lock)
	require.Equal(t, []string{"sb:{a}:lock", "{a}:lock"}, server.Keys("*"))
	require.NoError(t, one.Unlock())
	require.NoError(t, other.Unlock())
}

// P9: somebody else's key is an error at once, and stays as it is.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	for name, set := range map[string][]any{
		"string":   {"SET", "x"},
		"empty":    {"SET", ""},
		"number":   {"SET", 42},
		"prefix":   {"SET", "sb1"},
		"held":     {"SET", "sb1r"},
		"released": {"SET", "sb1-"},
		"garbage":  {"SET", "sb1-garbage"},
		"looks":    {"SET", "sb1really not a lock"},
		"later":    {"SET", "sb2r0123456789012345"},
		"other":    {"SET", "sb1w0123456789012345"},
		"list":     {"RPUSH", "x", "y"},
		"set":      {"SADD", "x"},
		"zset":     {"ZADD", 1, "x"},
		"hash":     {"HSET", "x", "y"},
		"stream":   {"XADD", "*", "x", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := locktest.Key(name)
			server.MustDo(t, append([]any{set[0], key}, set[1:]...)...)
			before := server.MustDo(t, "DUMP", key)
			mu := reentrant.New(s, name)
			ctx, cancel := context.WithTimeout(t.Context(), redistest.Patience)
			defer cancel()
			_, err := mu.TryLock(ctx)
			assert.ErrorIs(t, err, signalbox.ErrWrongKind)
			_, err = mu.Lock(ctx)
			assert.ErrorIs(t, err, signalbox.ErrWrongKind)
			_, err = mu.Holder(ctx)
			assert.ErrorIs(t, err, signalbox.ErrWrongKind)
			_, err = mu.IsLocked(ctx)
			assert.ErrorIs(t, err, signalbox.ErrWrongKind)
			assert.ErrorIs(t, mu.ForceUnlock(ctx), signalbox.ErrWrongKind)
			assert.Equal(t, before, server.MustDo(t, "DUMP", key))
			assert.Equal(t, int64(-1), server.MustDo(t, "PTTL", key))
		})
	}
}

// P9: also where the key appears while somebody waits for the lock.
func TestAForeignKeyEndsAWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	waiting := locktest.Contend(t.Context(), t, server, "a", reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	server.MustDo(t, "SET", locktest.Key("a"), "mine")
	server.MustDo(t, "PUBLISH", "sb:{a}:lock:unlocked", "1")
	require.ErrorIs(t, redistest.Receive(t, "the end of the wait", waiting).Err, signalbox.ErrWrongKind)
	require.ErrorIs(t, holder.Unlock(), signalbox.ErrLost)
	require.Equal(t, "mine", holderValue(t, server, "a"))
}

// P10: a right that is missing is an error at once, with the server's words.
func TestAMissingRightIsErrDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for name, rules := range map[string][]any{
		"NoScripts": {"~*", "&*", "+@all", "-@scripting"},
		"NoKeys":    {"~other:*", "&*", "+@all"},
		"NoSet":     {"~*", "&*", "+@all", "-set"},
	} {
		server.MustDo(t, append([]any{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...)
		s := signalbox.NewSession(locktest.ClientAs(t, server, name, "secret"))
		t.Cleanup(func() { _ = s.Close(locktest.Ended()) })
		_, err := reentrant.New(s, "a").Lock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrDenied, name)
		_, err = reentrant.New(s, "a").TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrDenied, name)
	}
}
