// SPDX-License-Identifier: Apache-2.0

package settings_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/settings"
)

func TestADurationOutOfBoundsIsRefused(t *testing.T) {
	t.Parallel()
	for _, good := range []time.Duration{100 * time.Millisecond, time.Second, 24 * time.Hour} {
		require.NoError(t, settings.CheckDuration("a lease", good))
	}
	for _, bad := range []time.Duration{-time.Second, 0, 100*time.Millisecond - 1, 24*time.Hour + 1} {
		err := settings.CheckDuration("a lease", bad)
		require.ErrorIs(t, err, errs.ErrBadOption)
		require.ErrorContains(t, err, "a lease of "+bad.String())
		require.ErrorContains(t, err, "from 100ms to 24h")
	}
}

func TestDefaultsAreThoseOfTheDocumentation(t *testing.T) {
	t.Parallel()
	s := settings.Default()
	require.Equal(t, "sb:", s.Prefix)
	require.NoError(t, names.CheckPrefix(s.Prefix))
	require.NoError(t, s.Err)
	require.False(t, s.Polling)
	require.Equal(t, settings.Lock{Terms: settings.Terms{Lease: 30 * time.Second}}, s.Lock)
	require.NoError(t, settings.CheckDuration("the default", s.Lock.Lease))
	require.NotNil(t, s.Logger)
	require.False(t, s.Logger.Enabled(t.Context(), 12), "nothing is logged")
}

func TestTheFirstBadOptionIsKept(t *testing.T) {
	t.Parallel()
	first, second := errors.New("first"), errors.New("second")
	var l settings.Lock
	l.Fail(first)
	l.Fail(second)
	require.Equal(t, first, l.Err)
}

func TestTheFirstLifeIsNoLongerThanTheGreatestHold(t *testing.T) {
	t.Parallel()
	require.Equal(t, time.Minute, (&settings.Terms{Lease: time.Minute}).Life())
	require.Equal(t, time.Minute, (&settings.Terms{Lease: time.Minute, MaxHold: time.Hour}).Life())
	require.Equal(t, time.Second, (&settings.Terms{Lease: time.Minute, MaxHold: time.Second}).Life())
}
