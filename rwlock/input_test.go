// SPDX-License-Identifier: Apache-2.0

package rwlock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/rwlock"
)

// requireRefused checks that every call answers want, and sends nothing.
func requireRefused(t *testing.T, w site, mu *rwlock.Lock, want error) {
	t.Helper()
	nobody := func(context.Context, signalbox.Lease) error {
		t.Error("a lock that is none was held")
		return nil
	}
	require.Empty(t, w.server.SentBy(func() {
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
	w := alone(t)
	s := w.session()
	closed := signalbox.NewSession(w.server.Client(t, signalbox.Tune))
	require.NoError(t, closed.Close(t.Context()))
	for name, bad := range map[string]struct { //nolint:paralleltest // commands are counted on one server
		mu   *rwlock.Lock
		want error
	}{
		"NoName":        {rwlock.New(s, ""), signalbox.ErrBadName},
		"LongName":      {rwlock.New(s, strings.Repeat("x", 513)), signalbox.ErrBadName},
		"RenewedShort":  {rwlock.New(s, w.name, signalbox.RenewedLease(99*time.Millisecond)), signalbox.ErrBadOption},
		"FixedLong":     {rwlock.New(s, w.name, signalbox.FixedLease(24*time.Hour+1)), signalbox.ErrBadOption},
		"MaxHoldZero":   {rwlock.New(s, w.name, signalbox.MaxHold(0)), signalbox.ErrBadOption},
		"NameAndOption": {rwlock.New(s, "", signalbox.FixedLease(0)), signalbox.ErrBadName},
		"NilSession":    {rwlock.New(nil, w.name), signalbox.ErrBadOption},
		"NilClient":     {rwlock.New(signalbox.NewSession(nil), w.name), signalbox.ErrBadOption},
		"ClosedSession": {rwlock.New(closed, w.name), signalbox.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) { requireRefused(t, w, bad.mu, bad.want) })
	}
}

func TestCheckOfAGoodLockAnswersNilAndSendsNothing(t *testing.T) {
	t.Parallel()
	w := alone(t)
	mu := w.lock()
	require.Empty(t, w.server.SentBy(func() { require.NoError(t, mu.Check()) }))
}

// P10: contexts are checked like everything else.
func TestANilContextIsAnError(t *testing.T) {
	t.Parallel()
	mu := here(t).lock()
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

// P9: every name up to 512 bytes is a lock of its own, with a line and messages of its own.
func TestStrangeNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := alone(t)
	one, other := w.session(), w.session()
	names := []string{
		"a", "a:lock", "a:line", "a:writers", "a:readers", "a:rwlives", "a:grants:", "a}:readers", "{a}", "}a{", "}", "{", "%7Ba%7D", "%",
		"\x00", "\r\n", "*", "?", "\xff", "日本", strings.Repeat("x", 512), strings.Repeat("{", 512),
	}
	leases := make([]signalbox.Lease, len(names))
	readers, writers := make([]<-chan result, len(names)), make([]<-chan result, len(names))
	for i, name := range names {
		var err error
		leases[i], err = rwlock.New(one, name).TryLock(t.Context())
		require.NoError(t, err, "%q is held with another name", name)
		readers[i] = later(t.Context(), rwlock.New(other, name), read)
		writers[i] = later(t.Context(), rwlock.New(other, name), write)
	}
	redistest.Await(t, "two lines for each", func() bool { return len(w.server.Keys("*")) == 4*len(names) })
	for i, name := range names {
		require.False(t, locktest.IsClosed(readers[i]) || locktest.IsClosed(writers[i]), "%q", name)
		require.NoError(t, leases[i].Unlock())
		require.NoError(t, locktest.MustHave(t, readers[i]).Unlock())
		require.NoError(t, locktest.MustHave(t, writers[i]).Unlock())
	}
}

// P10: a right that is missing is an error at once, with the server's words, and leaves nothing.
func TestAMissingRightIsErrDenied(t *testing.T) {
	t.Parallel()
	w := alone(t)
	free, held := w.of("free"), w.of("held")
	holder := must(t, held.lock(), write)
	for name, rules := range map[string][]any{
		"NoScripts": {"~*", "&*", "+@all", "-@scripting"},
		"NoKeys":    {"~other:*", "&*", "+@all"},
		"NoSet":     {"~*", "&*", "+@all", "-zadd"},
	} {
		s := sessionAs(t, w, name, rules...)
		for _, lock := range []site{free, held} {
			for _, take := range sides() {
				require.ErrorIs(t, second(take(rwlock.New(s, lock.name), t.Context())), signalbox.ErrDenied, name)
			}
		}
	}
	require.NoError(t, holder.Unlock())
	require.Zero(t, held.inLine())
}

// sessionAs returns a session of a user with these rules.
func sessionAs(t *testing.T, w site, name string, rules ...any) *signalbox.Session {
	t.Helper()
	w.server.MustDo(t, append([]any{"ACL", "SETUSER", name, "on", ">secret"}, rules...)...)
	return locktest.SessionOf(t, locktest.ClientAs(t, w.server, name, "secret"))
}

// P6: where subscribing is denied the lock is waited for all the same, by readers and writers.
func TestALockIsWaitedForWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	w := alone(t)
	mu := rwlock.New(sessionAs(t, w, "limited", "~*", "&*", "+@all", "-subscribe"), w.name)
	for range 3 {
		holder := must(t, w.lock(), write)
		reader := w.queue(t.Context(), mu, read, 1)
		writer := w.queue(t.Context(), mu, write, 2)
		require.NoError(t, holder.Unlock())
		require.NoError(t, locktest.MustHave(t, reader).Unlock())
		require.NoError(t, locktest.MustHave(t, writer).Unlock())
	}
}
