// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// requireRefused checks that every call answers want, and sends nothing.
func requireRefused(t *testing.T, server *redistest.Server, mu *rwlock.Lock, want error) {
	t.Helper()
	nobody := func(context.Context, signalbox.Lease) error {
		t.Error("a lock that is none was held")
		return nil
	}
	require.Empty(t, sentBy(server, func() {
		require.ErrorIs(t, mu.Check(), want)
		for _, take := range []side{write, read, tryWrite, tryRead} {
			lease, err := take(mu, t.Context())
			require.ErrorIs(t, err, want)
			require.Equal(t, signalbox.Lease{}, lease)
		}
		require.ErrorIs(t, mu.Do(t.Context(), nobody), want)
		require.ErrorIs(t, mu.RDo(t.Context(), nobody), want)
		require.ErrorIs(t, panicOf(mu.Locker(t.Context()).Lock), want)
		require.ErrorIs(t, panicOf(mu.RLocker(t.Context()).Lock), want)
		require.ErrorIs(t, mu.Downgrade(t.Context(), signalbox.Lease{}), want)
		require.ErrorIs(t, mu.ForceUnlock(t.Context()), want)
		require.ErrorIs(t, func() error { _, err := mu.IsLocked(t.Context()); return err }(), want)
		for _, err := range mu.Holders(t.Context()) {
			require.ErrorIs(t, err, want)
		}
	}))
}

// P9: what is no name, no option or no session is the error of every call.
func TestABadLockIsTheErrorOfEveryCall(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	closed := signalbox.NewSession(server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		mu   *rwlock.Lock
		want error
	}{
		"NoName":        {rwlock.New(s, ""), signalbox.ErrBadName},
		"LongName":      {rwlock.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"RenewedShort":  {rwlock.New(s, "a", signalbox.RenewedLease(99*time.Millisecond)), signalbox.ErrBadOption},
		"FixedLong":     {rwlock.New(s, "a", signalbox.FixedLease(24*time.Hour+1)), signalbox.ErrBadOption},
		"MaxHoldZero":   {rwlock.New(s, "a", signalbox.MaxHold(0)), signalbox.ErrBadOption},
		"NameAndOption": {rwlock.New(s, "", signalbox.FixedLease(0)), signalbox.ErrBadName},
		"NilSession":    {rwlock.New(nil, "a"), signalbox.ErrBadOption},
		"NilClient":     {rwlock.New(signalbox.NewSession(nil), "a"), signalbox.ErrBadOption},
		"ClosedSession": {rwlock.New(closed, "a"), signalbox.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, server, bad.mu, bad.want) })
	}
}

func TestCheckOfAGoodLockAnswersNilAndSendsNothing(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := newLock(t, server, "a")
	require.Empty(t, sentBy(server, func() { require.NoError(t, mu.Check()) }))
}

// P10: contexts are checked like everything else.
func TestANilContextIsAnError(t *testing.T) {
	t.Parallel()
	mu := newLock(t, redistest.Start(t), "a")
	held := must(t, mu, read) // beside which another could enter
	var none context.Context
	for _, take := range []side{write, read, tryWrite, tryRead} {
		require.ErrorIs(t, second(take(mu, none)), signalbox.ErrBadOption)
	}
	require.ErrorIs(t, mu.Do(none, nil), signalbox.ErrBadOption)
	require.ErrorIs(t, mu.RDo(none, nil), signalbox.ErrBadOption)
	require.ErrorIs(t, mu.Downgrade(none, held), signalbox.ErrBadOption)
	require.ErrorIs(t, mu.ForceUnlock(none), signalbox.ErrBadOption)
	require.ErrorIs(t, panicOf(mu.RLocker(none).Lock), signalbox.ErrBadOption)
	for _, err := range mu.Holders(none) {
		require.ErrorIs(t, err, signalbox.ErrBadOption)
	}
	require.NoError(t, held.Unlock())
}

func TestTheShortestAndLongestTermsWork(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	for _, d := range []time.Duration{100 * time.Millisecond, 24 * time.Hour} {
		for _, option := range []signalbox.LockOption{
			signalbox.RenewedLease(d), signalbox.FixedLease(d), signalbox.MaxHold(d),
		} {
			for _, take := range []side{write, read} {
				lease := must(t, rwlock.New(s, fmt.Sprint(d), option, nil), take)
				deadline := lease.Deadline()
				require.LessOrEqual(t, time.Until(deadline), d)
				if err := errors.Join(lease.Err(), lease.Unlock()); time.Now().Before(deadline) { // a tenth of a second may be over
					require.NoError(t, err)
				}
			}
		}
	}
}

// P9: every name up to 512 bytes is a lock of its own, with a line and messages of its own.
func TestStrangeNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one, other := newSession(t, server), newSession(t, server)
	names := []string{
		"a", "a:lock", "a:line", "a:writers", "a:readers", "a:rwlives", "a:grants:", "a}:readers", "{a}", "}a{", "}", "{", "%7Ba%7D", "%",
		"\x00", "\r\n", "*", "?", "\xff", "日本", strings.Repeat("x", 512), strings.Repeat("{", 512),
	}
	leases := make([]signalbox.Lease, len(names))
	readers, writers := make([]<-chan outcome, len(names)), make([]<-chan outcome, len(names))
	for i, name := range names {
		var err error
		leases[i], err = rwlock.New(one, name).TryLock(t.Context())
		require.NoError(t, err, "%q is held with another name", name)
		readers[i] = later(t.Context(), rwlock.New(other, name), read)
		writers[i] = later(t.Context(), rwlock.New(other, name), write)
	}
	await(t, "two lines for each", func() bool { return len(server.Keys("*")) == 4*len(names) })
	for i, name := range names {
		require.False(t, isClosed(readers[i]) || isClosed(writers[i]), "%q", name)
		require.NoError(t, leases[i].Unlock())
		require.NoError(t, mustHave(t, readers[i]).Unlock())
		require.NoError(t, mustHave(t, writers[i]).Unlock())
	}
}

// P10: a right that is missing is an error at once, with the server's words, and leaves nothing.
func TestAMissingRightIsErrDenied(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := must(t, newLock(t, server, "held"), write)
	for name, rules := range map[string][]any{
		"NoScripts": {"~*", "&*", "+@all", "-@scripting"},
		"NoKeys":    {"~other:*", "&*", "+@all"},
		"NoSet":     {"~*", "&*", "+@all", "-zadd"},
	} {
		s := sessionAs(t, server, name, rules...)
		for _, lock := range []string{"free", "held"} {
			for _, take := range []side{write, read} {
				require.ErrorIs(t, second(take(rwlock.New(s, lock), t.Context())), signalbox.ErrDenied, name)
			}
		}
	}
	require.NoError(t, holder.Unlock())
	require.Zero(t, inLine(t, server, "held"))
}

// sessionAs answers a session of a user with these rules.
func sessionAs(t *testing.T, server *redistest.Server, name string, rules ...any) *signalbox.Session {
	t.Helper()
	server.MustDo(t, append([]any{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...)
	s := signalbox.NewSession(server.Client(t, func(o *rueidis.ClientOption) {
		signalbox.Tune(o)
		o.Username, o.Password = name, "secret"
	}))
	t.Cleanup(func() { _ = s.Close(endedContext()) })
	return s
}

// P6: where subscribing is denied the lock is waited for all the same, by readers and writers.
func TestALockIsWaitedForWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := rwlock.New(sessionAs(t, server, "limited", "~*", "&*", "+@all", "-subscribe"), "a")
	for range 3 {
		holder := must(t, newLock(t, server, "a"), write)
		reader := queue(t.Context(), t, server, mu, read, 1)
		writer := queue(t.Context(), t, server, mu, write, 2)
		require.NoError(t, holder.Unlock())
		require.NoError(t, mustHave(t, reader).Unlock())
		require.NoError(t, mustHave(t, writer).Unlock())
	}
}
