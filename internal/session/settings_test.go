// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/names"
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

func TestLabelIsShortAndPrintable(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"", "web-1:42", "Zürich, 2. Stock", strings.Repeat("x", 64), strings.Repeat("é", 32)} {
		require.NoError(t, session.CheckLabel(good), "%q", good)
	}
	for bad, why := range map[string]string{
		strings.Repeat("x", 65): "65 bytes, and 64 are allowed", strings.Repeat("é", 32) + "x": "65 bytes",
		"\xff": "not UTF-8", "a\xc3": "not UTF-8",
		"a\nb": "control character", "\x00": "control character", "\x1b[31m": "control character", "\u0085": "control character",
	} {
		err := session.CheckLabel(bad)
		require.ErrorIs(t, err, errs.ErrBadOption, "%q", bad)
		require.ErrorContains(t, err, why)
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	s := session.Defaults()
	require.Equal(t, "sb:", s.Prefix)
	require.NoError(t, names.CheckPrefix(s.Prefix))
	require.NoError(t, s.Err)
	require.False(t, s.Polling)
	require.Equal(t, session.LockSettings{
		LeaseTerms: session.LeaseTerms{Lease: 30 * time.Second, FirstLease: 3 * time.Second}, Floor: time.Minute,
		KindSettings: session.KindSettings{Linger: 5 * time.Minute},
		Election:     session.ElectionSettings{StepDown: session.Unset}, Shards: session.ShardsSettings{RebalanceDelay: session.Unset},
	}, s.Lock)
	require.NoError(t, session.CheckFloor(s.Lock.Floor))
	require.NoError(t, session.CheckDuration("the default", s.Lock.Lease))
	host, err := os.Hostname()
	require.NoError(t, err)
	require.Equal(t, session.ProcessLabel(host, os.Getpid()), s.Label)
	require.NoError(t, session.CheckLabel(s.Label))
	require.Nil(t, s.Logger, "nothing is logged")
	require.Zero(t, s.CloseGrace)
}

func TestFirstBadOptionIsKept(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	var l session.LockSettings
	l.Fail(first)
	l.Fail(second)
	require.Equal(t, first, l.Err)
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
