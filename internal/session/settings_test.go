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
	"github.com/signalbox-go/signalbox/internal/proto"
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
			require.NoError(t, l.Check(&proto.Reentrant), "%+v", c)
			continue
		}
		require.ErrorIs(t, l.Check(&proto.Reentrant), errs.ErrBadOption, "%+v", c)
		l.Replicas = session.Replicas{}
		require.NoError(t, l.Check(&proto.Reentrant))
		first := errors.New("the first")
		l.Fail(first)
		require.Equal(t, first, l.Check(&proto.Reentrant))
	}
}

func TestFirstLifeIsAtMostTheGreatestHold(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, (&session.LeaseTerms{Lease: time.Minute}).Life())
	require.Equal(t, time.Minute, (&session.LeaseTerms{Lease: time.Minute, MaxHold: time.Hour}).Life())
	require.Equal(t, time.Second, (&session.LeaseTerms{Lease: time.Minute, MaxHold: time.Second}).Life())
	for kind, want := range map[*proto.Kind]time.Duration{
		&proto.Reentrant: session.DefaultFirstLease, &proto.Election: time.Minute, &proto.Once: time.Minute,
	} {
		set := session.Defaults()
		set.AddDefaults(session.Option(proto.OptionRenewedLease, nil, func(l *session.LockSettings) { l.Lease = time.Minute }))
		start := session.StartOf(&set, kind)
		require.Equal(t, want, start.First(), kind.Name)
		set.AddDefaults(session.Option(proto.OptionFirstLease, nil, func(l *session.LockSettings) { l.FirstLease = time.Second }))
		start = session.StartOf(&set, kind)
		require.Equal(t, time.Second, start.First(), kind.Name)
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
	for _, pair := range [][2]proto.Option{
		{proto.OptionRenewedLease, proto.OptionFixedLease},
		{proto.OptionMaxHold, proto.OptionFixedLease},
		{proto.OptionKeepWarm, proto.OptionFixedLease},
		{proto.OptionKeepWarm, proto.OptionMaxHold},
	} {
		requireContradiction(t, func(l *session.LockSettings) { l.Give(pair[0]) }, func(l *session.LockSettings) { l.Give(pair[1]) })
	}
	give := func(in *proto.Layout) func(*session.LockSettings) {
		return func(l *session.LockSettings) { l.GiveLayout(in) }
	}
	one := &proto.Layout{Name: "one", Lock: new(proto.ExclusiveTable)}
	other := &proto.Layout{Name: "other", Lock: new(proto.ExclusiveTable)}
	requireContradiction(t, give(one), give(other))
	requireContradiction(t, give(one), give(proto.Native()))
}

// requireContradiction fails the test unless one behind other is an error, and other is valid in place of a default.
func requireContradiction(t *testing.T, one, other func(*session.LockSettings)) {
	t.Helper()
	set := session.Defaults()
	set.AddDefaults(one)
	set.AddDefaults(other) // which replaces it
	set.AddDefaults(one)
	require.NoError(t, set.Err)
	l := session.StartOf(&set, &proto.Reentrant)
	other(&l)
	require.NoError(t, l.Check(&proto.Reentrant))
	one(&l)
	require.ErrorIs(t, l.Check(&proto.Reentrant), errs.ErrBadOption)
	require.ErrorContains(t, l.Check(&proto.Reentrant), "contradict each other")
}

// A default that a kind does not take is not applied: neither its value, nor its error, nor what contradicts it.
func TestDefaultThatAKindLacksIsLeftOut(t *testing.T) {
	t.Parallel()
	set := session.Defaults()
	give := func(o proto.Option, change func(*session.LockSettings)) {
		set.AddDefaults(session.Option(o, nil, change))
	}
	give(proto.OptionFixedLease, func(l *session.LockSettings) { l.Lease, l.Fixed = time.Hour, true })
	give(proto.OptionMaxWaiters, func(l *session.LockSettings) { l.MaxWaiters = 7 })
	give(proto.OptionKeep, func(l *session.LockSettings) { l.Keep = time.Minute })
	for _, kind := range proto.All {
		l := session.StartOf(&set, kind)
		require.Zero(t, l.Given, kind.Name)
		require.Equal(t, kind.Options&proto.OptionFixedLease != 0, l.Fixed, kind.Name)
		require.Equal(t, kind.Options&proto.OptionMaxWaiters != 0, l.MaxWaiters == 7, kind.Name)
		require.Equal(t, kind == &proto.Countdown, l.Keep > 0, kind.Name)
		if !l.Fixed && kind.Lease > 0 {
			require.Equal(t, kind.Lease, l.Lease, kind.Name)
		}
		session.Option(proto.OptionKeep, nil, func(l *session.LockSettings) { l.Keep = time.Hour })(&l)
		require.Equal(t, time.Hour, l.Keep, "an option of the lock itself is applied, and then refused")
		require.Equal(t, kind == &proto.Countdown, l.Check(kind) == nil, kind.Name)
	}
}

// The library's own layout cancels one of others, which may come again.
func TestNativeLayoutCancelsAnother(t *testing.T) {
	t.Parallel()
	other := &proto.Layout{Name: "other", Lock: new(proto.ExclusiveTable)}
	l := session.Defaults().Lock
	l.GiveLayout(other)
	l.GiveLayout(other)
	require.NoError(t, l.Check(&proto.Reentrant))
	require.ErrorContains(t, l.Check(&proto.Fair), "WithLayout(other) is not an option of fair: it has WithRenewedLease, ")
	l.GiveLayout(proto.Native())
	require.NoError(t, l.Check(&proto.Fair))
	require.Same(t, proto.Native(), l.Layout)
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
