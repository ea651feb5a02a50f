// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

// Two options that contradict each other are an error that names both. A default that a lock replaces is no error.
func TestOptionsThatContradictEachOtherAreRefused(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]session.OptionID{
		{session.RenewedLease, session.FixedLease},
		{session.MaxHold, session.FixedLease},
		{session.KeepWarm, session.FixedLease},
		{session.KeepWarm, session.MaxHold},
	} {
		requireContradiction(t, func(l *session.LockSettings) { l.Give(pair[0]) }, func(l *session.LockSettings) { l.Give(pair[1]) })
	}
	give := func(in *layout.Layout) func(*session.LockSettings) {
		return func(l *session.LockSettings) { l.GiveLayout(in) }
	}
	one := &layout.Layout{Name: "one", Lock: new(layout.Exclusive)}
	other := &layout.Layout{Name: "other", Lock: new(layout.Exclusive)}
	requireContradiction(t, give(one), give(other))
	requireContradiction(t, give(one), give(layout.Native()))
}

// requireContradiction fails the test unless one behind other is an error, and other is valid in place of a default.
func requireContradiction(t *testing.T, one, other func(*session.LockSettings)) {
	t.Helper()
	l := session.Defaults().Lock
	one(&l)
	l.StartFor(session.Reentrant) // what is given so far is a default
	other(&l)
	require.NoError(t, l.Check(session.Reentrant))
	one(&l)
	require.ErrorIs(t, l.Check(session.Reentrant), errs.ErrBadOption)
	require.ErrorContains(t, l.Check(session.Reentrant), "contradict each other")
}

// The library's own layout cancels one of others, which may come again.
func TestNativeLayoutCancelsAnother(t *testing.T) {
	t.Parallel()
	other := &layout.Layout{Name: "other", Lock: new(layout.Exclusive)}
	l := session.Defaults().Lock
	l.GiveLayout(other)
	l.GiveLayout(other)
	require.NoError(t, l.Check(session.Reentrant))
	require.ErrorContains(t, l.Check(session.Fair), "WithLayout(other) is not an option of fair: these have it: reentrant")
	l.GiveLayout(layout.Native())
	require.NoError(t, l.Check(session.Fair))
	require.Same(t, layout.Native(), l.Layout)
}
