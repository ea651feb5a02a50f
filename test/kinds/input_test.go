// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// P9: a bad name, option or session is the error of every call, and sends nothing.
func TestABadLockIsTheErrorOfEveryCall(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, everyKind, func(f *fixture) {
		session := f.session()
		closed := signalbox.NewSession(f.server.Client(f, signalbox.Tune))
		require.NoError(f, closed.Close(f.Context()))
		with := func(options ...signalbox.LockOption) anyLock { return f.in(session, options...) }
		of := func(session *signalbox.Session, name string, options ...signalbox.LockOption) anyLock {
			return of(f.Primitive, session, name, options...)
		}
		for name, bad := range map[string]struct {
			mu   anyLock
			want error
		}{
			"NoName":              {of(session, ""), signalbox.ErrBadName},
			"LongName":            {of(session, strings.Repeat("x", 513)), signalbox.ErrBadName},
			"RenewedZero":         {with(signalbox.WithRenewedLease(0)), signalbox.ErrBadOption},
			"RenewedNegative":     {with(signalbox.WithRenewedLease(-time.Second)), signalbox.ErrBadOption},
			"RenewedShort":        {with(signalbox.WithRenewedLease(99 * time.Millisecond)), signalbox.ErrBadOption},
			"RenewedLong":         {with(signalbox.WithRenewedLease(longest + 1)), signalbox.ErrBadOption},
			"FixedZero":           {with(signalbox.WithFixedLease(0)), signalbox.ErrBadOption},
			"FixedNegative":       {with(signalbox.WithFixedLease(-1)), signalbox.ErrBadOption},
			"FixedShort":          {with(signalbox.WithFixedLease(99 * time.Millisecond)), signalbox.ErrBadOption},
			"FixedLong":           {with(signalbox.WithFixedLease(longest + 1)), signalbox.ErrBadOption},
			"FirstLeaseZero":      {with(signalbox.WithFirstLease(0)), signalbox.ErrBadOption},
			"FirstLeaseNegative":  {with(signalbox.WithFirstLease(-time.Second)), signalbox.ErrBadOption},
			"KeptNegative":        {with(signalbox.WithKeepWarm(-1)), signalbox.ErrBadOption},
			"KeptLong":            {with(signalbox.WithKeepWarm(time.Minute + 1)), signalbox.ErrBadOption},
			"KeptFirstLease":      {with(signalbox.WithKeepWarm(time.Second), signalbox.WithFirstLease(3*time.Second+1)), signalbox.ErrBadOption},
			"KeptFixed":           {with(signalbox.WithKeepWarm(time.Second), signalbox.WithFixedLease(time.Second)), signalbox.ErrBadOption},
			"KeptMaxHold":         {with(signalbox.WithKeepWarm(time.Second), signalbox.WithMaxHold(time.Second)), signalbox.ErrBadOption},
			"NoWaiters":           {with(signalbox.WithMaxWaiters(0)), signalbox.ErrBadOption},
			"NegativeWaiters":     {with(signalbox.WithMaxWaiters(-1)), signalbox.ErrBadOption},
			"ClassOfTwoLines":     {with(signalbox.WithClass("a\nb")), signalbox.ErrBadOption},
			"MaxHoldZero":         {with(signalbox.WithMaxHold(0)), signalbox.ErrBadOption},
			"MaxHoldNegative":     {with(signalbox.WithMaxHold(-time.Hour)), signalbox.ErrBadOption},
			"MaxHoldShort":        {with(signalbox.WithMaxHold(99 * time.Millisecond)), signalbox.ErrBadOption},
			"MaxHoldLong":         {with(signalbox.WithMaxHold(longest + 1)), signalbox.ErrBadOption},
			"NoReplicas":          {with(signalbox.WithReplicas(0, time.Second)), signalbox.ErrBadOption},
			"ManyReplicas":        {with(signalbox.WithReplicas(101, time.Second)), signalbox.ErrBadOption},
			"ReplicasAtOnce":      {with(signalbox.WithReplicas(1, 999*time.Microsecond)), signalbox.ErrBadOption},
			"ReplicasForEver":     {with(signalbox.WithRenewedLease(time.Hour), signalbox.WithReplicas(1, time.Minute+1)), signalbox.ErrBadOption},
			"ReplicasForALease":   {with(signalbox.WithReplicas(1, time.Second), signalbox.WithFixedLease(time.Second)), signalbox.ErrBadOption},
			"ReplicasForAMaxHold": {with(signalbox.WithReplicas(1, time.Second), signalbox.WithMaxHold(time.Second)), signalbox.ErrBadOption},
			"BadThenGood":         {with(signalbox.WithFixedLease(0), signalbox.WithFixedLease(time.Second)), signalbox.ErrBadOption},
			"NameAndOption":       {of(session, "", signalbox.WithFixedLease(0)), signalbox.ErrBadName},
			"OptionAndName":       {of(session, "", signalbox.WithFixedLease(0)), signalbox.ErrBadOption},
			"NilSession":          {f.in(nil), signalbox.ErrBadOption},
			"NilClient":           {f.in(signalbox.NewSession(nil)), signalbox.ErrBadOption},
			"ClosedSession":       {f.in(closed), signalbox.ErrClosed},
			"BadDefault":          {f.in(f.session(signalbox.WithDefaults(signalbox.WithMaxHold(1)))), signalbox.ErrBadOption},
			"BadLabel":            {f.in(f.session(signalbox.WithLabel("a\nb"))), signalbox.ErrBadOption},
			"BadPrefix":           {f.in(f.session(signalbox.WithPrefix("{x}"))), signalbox.ErrBadOption},
		} {
			f.Run(name, func(t *testing.T) {
				require.Empty(t, f.server.SentBy(func() {
					require.ErrorIs(t, bad.mu.Check(), bad.want)
					for call, err := range refusals(t, bad.mu, t.Context(), signalbox.Lease{}) {
						require.ErrorIs(t, err, bad.want, call)
					}
				}))
			})
		}
	})
}

// P7: Check examines the arguments of New, and sends nothing.
func TestCheckOfAGoodLockReturnsNilAndSendsNothing(t *testing.T) { //nolint:paralleltest // commands are counted
	alone(t, everyKind, func(f *fixture) {
		mu := f.lock()
		require.Empty(f, f.server.SentBy(func() { require.NoError(f, mu.Check()) }))
	})
}

// P10: contexts are checked like everything else, also if another reader could enter.
func TestANilContextIsAnError(t *testing.T) {
	t.Parallel()
	each(t, everyKind, func(f *fixture) {
		mu := f.lock()
		held := f.must(mu)
		var none context.Context
		for call, err := range refusals(f.T, mu, none, held) {
			require.ErrorIs(f, err, signalbox.ErrBadOption, call)
		}
		require.ErrorIs(f, mu.Do(none, nil), signalbox.ErrBadOption)
		require.NoError(f, held.Unlock())
	})
}

// P9: every name up to 512 bytes is a lock of its own, with a queue and messages of its own.
func TestStrangeNamesAreLocksOfTheirOwn(t *testing.T) {
	t.Parallel()
	each(t, native, func(f *fixture) {
		prefix := fmt.Sprint("strange", made.Add(1), ":")
		one, other, third := f.session(signalbox.WithPrefix(prefix)), f.session(signalbox.WithPrefix(prefix)), f.session(signalbox.WithPrefix(prefix))
		all := []string{
			"a", "A", " a", "a ", "a:lock", "a}:lock", "{a}", "{a", "a}", "}a", "}a{", "}", "{", "{}", "}{", "%7Ba%7D", "%7ba", "%", "%%", "%25",
			"\x00", "a\x00", "\x00a", "a\x00b", "a\nb", "\r\n", "\x7f", "*", "?", "[a]", "a*", "\xff*",
			"\xff", "\xfe", "\xc3\x28", "a\x80", "\uFFFD", "\xef\xbf", "é", "e\u0301",
			"sb:{a}:lock", "a:unlocked", "日本", strings.Repeat("x", 512), strings.Repeat("{", 512), strings.Repeat("\xff", 512),
			"a:queue", "a:heartbeats", "a:grants:", "a}:queue", "a:writers", "a:readers", "a:rwheartbeats", "a}:readers", "a:permits", "a:permits:queue",
		}
		leases := make([]signalbox.Lease, len(all))
		waits, rivals := make([]pendingLock, len(all)), make([]pendingLock, len(all))
		for i, name := range all {
			var err error
			leases[i], err = of(f.excludedBy(), one, name).TryLock(f.Context())
			require.NoError(f, err, "%q is held with another name", name)
			require.ErrorIs(f, second(of(f.Primitive, third, name).TryLock(f.Context())), signalbox.ErrHeld, "%q", name)
			waits[i] = locktest.LaterWith(f.Context(), of(f.Primitive, other, name).Lock)
			rivals[i] = locktest.LaterWith(f.Context(), of(f.excludedBy(), other, name).Lock)
		}
		keys := len(all)
		if f.excludedBy().Name == f.lockKind.Name {
			keys *= 3 // the lock, a queue, and the heartbeats of the waiters in it
		} else {
			keys *= 4 // two queues
		}
		redistest.Await(f, "a queue for each", func() bool { return len(f.server.Keys(prefix+"*")) == keys })
		for i, name := range all {
			require.False(f, locktest.IsClosed(waits[i]) || locktest.IsClosed(rivals[i]), "%q", name)
			require.NoError(f, leases[i].Unlock())
			for range 2 {
				select {
				case got := <-waits[i]:
					require.NoError(f, got.Err)
					require.NoError(f, got.Value.Unlock())
				case got := <-rivals[i]:
					require.NoError(f, got.Err)
					require.NoError(f, got.Value.Unlock())
				}
			}
		}
	})
}

// foreign returns keys that are no lock of the kind. A name in parentheses is a lock of another kind.
func foreign(k lockKind) map[string][]any {
	const stamp, id = "1780000000000000", "0123456789012345678901234567890123456789x"
	keys := map[string][]any{
		"string": {"SET", "x"}, "empty": {"SET", ""}, "number": {"SET", 42}, "prefix": {"SET", "sb1"}, "released": {"SET", "sb1-"},
		"lock": {"SET", "sb1l"}, "unknown": {"SET", "sb1f"}, "garbage": {"SET", "sb1-garbage"}, "looks": {"SET", "sb1really not a lock"},
		"later": {"SET", "sb2r0123456789012345"}, "later fair": {"SET", "sb2f0123456789012345"}, "later rwlock": {"SET", "sb2w0123456789012345"},
		"other": {"SET", "sb1w0123456789012345"}, "list": {"RPUSH", "x", "y"}, "set": {"SADD", "x"}, "zset": {"ZADD", 1, "x"},
		"hash": {"HSET", "x", "y"}, "redisson": {"HSET", "mode", "read", "0123:1", "1"}, "stream": {"XADD", "*", "x", "y"},
	}
	if k.Name != locktest.Permit().Name {
		keys["semaphore"] = []any{"ZADD", 1, "sb1s"}
		maps.Copy(keys, map[string][]any{
			"(" + eitherMode + ")": {"SET", "sb1l" + stamp + id + "r-"},
			"(rwlock)":             {"ZADD", "-" + stamp, "sb1w", 1, "phase", "9" + stamp[1:], id + "a:1"},
		})
		if k.known == eitherMode {
			delete(keys, "("+eitherMode+")")
		}
		if k.queues != nil && k.Queue("a") == locktest.Keys("a").Writers() || k.Queue("a") == locktest.Keys("a").Readers() {
			delete(keys, "(rwlock)")
		}
	}
	return keys
}

// P9: a key of another program or another kind is an error at once, and does not change.
func TestAForeignKeyIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	each(t, native, func(f *fixture) {
		session, base := f.session(), f.name
		for name, set := range foreign(f.lockKind) {
			f.name = base + name
			f.server.MustDo(f, append([]any{set[0], f.key()}, set[1:]...)...)
			before := f.server.MustDo(f, "DUMP", f.key())
			mu := f.in(session)
			errs := make(map[string]error)
			if !strings.HasPrefix(name, "(") { // some kinds report the holder of another kind's lock
				errs = questions(f.T, mu, f.Context())
			}
			errs["TryLock"] = second(mu.TryLock(f.Context()))
			errs["Lock"] = second(mu.Lock(f.Context()))
			for call, err := range errs {
				require.ErrorIs(f, err, signalbox.ErrWrongKind, "%s: %s", name, call)
				if strings.HasPrefix(name, "(") {
					require.ErrorContains(f, err, name, "it says which kind has the name")
				}
			}
			require.Equal(f, before, f.server.MustDo(f, "DUMP", f.key()), name)
			require.Equal(f, int64(-1), f.server.MustDo(f, "PTTL", f.key()), name)
			require.Zero(f, f.ticketsOf(), name)
			f.server.MustDo(f, "DEL", f.key()) // else Close waits a second for withdrawals that are refused
		}
	})
}

// ticketsOf counts tickets without reading the lock's key.
func (f *fixture) ticketsOf() int {
	f.Helper()
	if f.queues == nil {
		return 0
	}
	return locktest.Count(f, f.server, "EXISTS", f.Queue(f.name))
}

// P9: foreign keys under the names of the queues are found before anything is written, and do not change.
func TestAForeignQueueIsErrWrongKindAndUntouched(t *testing.T) {
	t.Parallel()
	each(t, func(k lockKind) bool { return k.queues != nil }, func(f *fixture) {
		base := f.name
		for n := range f.queues(locktest.Keys(base)) {
			f.name = fmt.Sprint(base, n)
			key := f.queues(locktest.Keys(f.name))[n]
			holder := f.must(f.against())
			f.server.MustDo(f, "SET", key, "mine")
			require.ErrorIs(f, second(f.lock().Lock(f.Context())), signalbox.ErrWrongKind, key)
			require.Equal(f, "mine", f.server.MustDo(f, "GET", key))
			f.server.MustDo(f, "DEL", key)
			require.NoError(f, holder.Unlock())
			f.awaitFree()
		}
	})
}

// P9: locks of different kinds keep each other out while one is held, and the tokens of a name rise over all kinds.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	locks := func(k lockKind) bool { return native(k) && k.enters }
	each(t, locks, func(f *fixture) {
		for _, k := range kinds() {
			if !locks(k) || k.known == f.known {
				continue
			}
			other := of(k.Primitive, f.session(), f.name)
			for range 2 { // the second time there is a floor
				mu := f.lock() // one that nothing is to be withdrawn for
				lease := f.must(other)
				for _, take := range []func(context.Context) (signalbox.Lease, error){mu.TryLock, mu.Lock} {
					err := second(take(f.Context()))
					require.ErrorIs(f, err, signalbox.ErrWrongKind)
					require.ErrorContains(f, err, "("+k.known+")")
				}
				forced, _ := mu.(forceUnlocker)
				require.ErrorIs(f, forced.ForceUnlock(f.Context()), signalbox.ErrWrongKind)
				require.Zero(f, f.tickets())
				require.NoError(f, lease.Err())
				require.NoError(f, lease.Unlock())
				ours := f.must(mu)
				require.Greater(f, ours.Token(), lease.Token(), "the floor is that of the name")
				require.NoError(f, ours.Unlock())
			}
		}
	})
}

// sessionAs returns a session of a user with these rules.
func (f *fixture) sessionAs(rules ...any) *signalbox.Session {
	f.Helper()
	user := fmt.Sprint("user", made.Add(1))
	f.server.MustDo(f, append([]any{"ACL", "SETUSER", user, "on", ">secret"}, rules...)...)
	return locktest.SessionOf(f, locktest.ClientAs(f, f.server, user, "secret"))
}

// P10: a missing right is an error at once, with the server's words, and leaves nothing.
func TestAMissingRightIsErrDenied(t *testing.T) {
	t.Parallel()
	each(t, native, func(f *fixture) {
		for name, rules := range map[string][]any{
			"NoScripts": {"~*", "&*", "+@all", "-@scripting"},
			"NoKeys":    {"~other:*", "&*", "+@all"},
			"NoSet":     {"~*", "&*", "+@all", "-set", "-zadd"},
		} {
			mu := f.in(f.sessionAs(rules...))
			require.ErrorIs(f, second(mu.TryLock(f.Context())), signalbox.ErrDenied, name)
			require.ErrorIs(f, second(mu.Lock(f.Context())), signalbox.ErrDenied, name)
			if f.queues != nil {
				holder := f.must(f.against())
				require.ErrorIs(f, second(mu.Lock(f.Context())), signalbox.ErrDenied, name)
				require.NoError(f, holder.Unlock())
			}
			f.awaitFree()
		}
	})
}

// P6: if subscribing is denied the lock is waited for all the same.
func TestALockIsWaitedForWithoutSubscriptions(t *testing.T) {
	t.Parallel()
	each(t, func(k lockKind) bool { return k.queues != nil }, func(f *fixture) {
		mu := f.in(f.sessionAs("~*", "&*", "+@all", "-subscribe"))
		for range 3 {
			holder := f.must(f.against())
			waiting := f.wait(f.Context(), mu, 1)
			require.NoError(f, holder.Unlock())
			require.NoError(f, locktest.MustHave(f, waiting).Unlock())
		}
	})
}
