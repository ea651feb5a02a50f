// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/names"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

func TestTheShortestAndLongestTermsWork(t *testing.T) {
	t.Parallel()
	s := locktest.SteadySession(t, redistest.Start(t))
	for _, d := range []time.Duration{100 * time.Millisecond, 24 * time.Hour} {
		for _, option := range []signalbox.LockOption{
			signalbox.WithRenewedLease(d), signalbox.WithFixedLease(d), signalbox.WithMaxHold(d),
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

// P9: sessions with different prefixes do not exclude each other.
func TestPrefixesKeepSessionsApart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	one := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	other := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server, signalbox.WithPrefix("")), "a").Lock)
	require.Equal(t, []string{"sb:{a}:lock", "{a}:lock"}, server.Keys("*"))
	require.NoError(t, one.Unlock())
	require.NoError(t, other.Unlock())
}

// P9: also if the key appears during a wait for the lock.
func TestAForeignKeyEndsAWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	holder := locktest.Must(t, reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	waiting := locktest.Enqueue(t.Context(), t, server, "a", reentrant.New(locktest.SteadySession(t, server), "a").Lock)
	ticket := fmt.Sprint(server.MustDo(t, "ZRANGE", locktest.Keys("a").QueueKey(), 0, 0).([]any)[0]) //nolint:forcetypeassert // a list of one
	server.MustDo(t, "SET", locktest.Key("a"), "mine")
	// A message that names no heartbeat of the session makes it poll, unless it just did.
	server.MustDo(t, "PUBLISH", names.Grants(names.DefaultPrefix)+ticket[:22], ticket[22:41]+strings.Repeat("1", 36))
	require.ErrorIs(t, redistest.Receive(t, "the end of the wait", waiting).Err, signalbox.ErrWrongKind)
	require.ErrorIs(t, holder.Unlock(), signalbox.ErrLost)
	require.Equal(t, "mine", holderValue(t, server, "a"))
}
