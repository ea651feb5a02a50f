// SPDX-License-Identifier: Apache-2.0

package kinds_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
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
			"LongName":            {of(session, strings.Repeat("x", 513)), signalbox.ErrBadName},
			"RenewedShort":        {with(signalbox.WithRenewedLease(99 * time.Millisecond)), signalbox.ErrBadOption},
			"KeptFirstLease":      {with(signalbox.WithKeepWarm(time.Second), signalbox.WithFirstLease(3*time.Second+1)), signalbox.ErrBadOption},
			"KeptFixed":           {with(signalbox.WithKeepWarm(time.Second), signalbox.WithFixedLease(time.Second)), signalbox.ErrBadOption},
			"KeptMaxHold":         {with(signalbox.WithKeepWarm(time.Second), signalbox.WithMaxHold(time.Second)), signalbox.ErrBadOption},
			"ClassOfTwoLines":     {with(signalbox.WithClass("a\nb")), signalbox.ErrBadOption},
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

// P9: locks of different kinds keep each other out while one is held, and the tokens of a name rise over all kinds.
func TestAnotherKindsLockIsErrWrongKind(t *testing.T) {
	t.Parallel()
	locks := func(k lockKind) bool { return k.known != "" }
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
