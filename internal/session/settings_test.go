// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
)

func TestWaitForReplicasIsShorterThanTheLease(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lease, maxHold, wait time.Duration
		good                 bool
	}{
		{lease: time.Second, wait: time.Second - 1, good: true},
		{lease: time.Second, wait: time.Second},
		{lease: time.Minute, maxHold: time.Second, wait: time.Second - 1, good: true},
		{lease: time.Minute, maxHold: time.Second, wait: time.Second},
	} {
		l := session.LockSettings{LeaseTerms: session.LeaseTerms{Lease: c.lease, MaxHold: c.maxHold}, KindSettings: session.KindSettings{Replicas: session.Replicas{Count: 1, Wait: c.wait}}}
		if c.good {
			require.NoError(t, l.Check(session.Reentrant), "%+v", c)
			continue
		}
		require.ErrorIs(t, l.Check(session.Reentrant), errs.ErrBadOption, "%+v", c)
		l.Replicas = session.Replicas{}
		require.NoError(t, l.Check(session.Reentrant))
		first := errors.New("the first")
		l.Fail(first)
		require.Equal(t, first, l.Check(session.Reentrant))
	}
}

func TestFirstLifeIsAtMostTheGreatestHold(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, (&session.LeaseTerms{Lease: time.Minute}).Life())
	require.Equal(t, time.Minute, (&session.LeaseTerms{Lease: time.Minute, MaxHold: time.Hour}).Life())
	require.Equal(t, time.Second, (&session.LeaseTerms{Lease: time.Minute, MaxHold: time.Second}).Life())
	for kind, want := range map[session.Kind]time.Duration{
		session.Reentrant: session.DefaultFirstLease, session.Election: time.Minute, session.Once: time.Minute,
	} {
		set := session.Defaults().Lock
		set.Lease = time.Minute
		set.Give(session.RenewedLease)
		set.StartFor(kind)
		require.Equal(t, want, set.First(), kind)
		set.FirstLease = time.Second
		set.Give(session.FirstLease) // as a default of the session
		set.StartFor(kind)
		require.Equal(t, time.Second, set.First(), kind)
	}
	for want, terms := range map[time.Duration]session.LeaseTerms{
		3 * time.Second:        {Lease: time.Minute, FirstLease: 3 * time.Second},
		time.Second:            {Lease: time.Second, FirstLease: 3 * time.Second},
		2 * time.Second:        {Lease: time.Minute, FirstLease: 3 * time.Second, MaxHold: 2 * time.Second},
		time.Minute:            {Lease: time.Minute, FirstLease: 3 * time.Second, Fixed: true},
		100 * time.Millisecond: {Lease: time.Minute, FirstLease: 100 * time.Millisecond},
	} {
		require.Equal(t, want, terms.First())
	}
}

// The pods of a deployment have long names that differ at their ends, and one pid.
func TestLabelsOfProcessesDiffer(t *testing.T) {
	t.Parallel()
	const host = "signalbox-orders-reconciliation-production-euw1-7d9c5b8f6d"
	labels := make(map[string]bool)
	for _, name := range []string{"", "a", host + "-x2kq1", host + "-x2kq2", host + "-9kd1p", strings.Repeat("x", 300) + "1", strings.Repeat("x", 300) + "2"} {
		for _, pid := range []int{1, 2, 4194304} {
			label := session.ProcessLabel(name, pid)
			require.NoError(t, session.CheckLabel(label))
			require.True(t, strings.HasSuffix(label, ":"+strconv.Itoa(pid)), label)
			require.False(t, labels[label], label)
			labels[label] = true
		}
	}
	require.Equal(t, "api-7d9c5b8f6d-x2kq1:1", session.ProcessLabel("api-7d9c5b8f6d-x2kq1", 1))
	require.Equal(t, ":1", session.ProcessLabel("a\x00b", 1))
	require.NoError(t, session.CheckLabel(session.ProcessLabel(strings.Repeat("\xc3\xa9", 100), 1)), "cut within a letter")
}

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
	one := &layout.Layout{Name: "one", Lock: new(layout.ExclusiveTable)}
	other := &layout.Layout{Name: "other", Lock: new(layout.ExclusiveTable)}
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
	other := &layout.Layout{Name: "other", Lock: new(layout.ExclusiveTable)}
	l := session.Defaults().Lock
	l.GiveLayout(other)
	l.GiveLayout(other)
	require.NoError(t, l.Check(session.Reentrant))
	require.ErrorContains(t, l.Check(session.Fair), "WithLayout(other) is not an option of fair: these have it: reentrant")
	l.GiveLayout(layout.Native())
	require.NoError(t, l.Check(session.Fair))
	require.Same(t, layout.Native(), l.Layout)
}

func TestDurationOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for _, good := range []time.Duration{100 * time.Millisecond, time.Second, 24 * time.Hour} {
		require.NoError(t, session.CheckDuration("a lease", good))
	}
	for _, bad := range []time.Duration{-time.Second, 0, 100*time.Millisecond - 1, 24*time.Hour + 1} {
		err := session.CheckDuration("a lease", bad)
		require.ErrorIs(t, err, errs.ErrBadOption)
		require.ErrorContains(t, err, "a lease of "+bad.String())
		require.ErrorContains(t, err, "from 100ms to 24h")
	}
}
