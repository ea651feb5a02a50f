// SPDX-License-Identifier: Apache-2.0

package reentrant_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// requireHolder returns the holder of the lock.
func requireHolder(t *testing.T, mu *reentrant.Lock) signalbox.Holder {
	t.Helper()
	h, err := mu.Holder(t.Context())
	require.NoError(t, err)
	locked, err := mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.True(t, locked)
	return h
}

func requireFree(t *testing.T, mu *reentrant.Lock) {
	t.Helper()
	h, err := mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrNotHeld)
	require.Zero(t, h)
	locked, err := mu.IsLocked(t.Context())
	require.NoError(t, err)
	require.False(t, locked)
}

func TestHolderReturnsTheHolder(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Minute
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server, signalbox.WithLabel("Schicht 3, Ölpresse"))
	mu, elsewhere := reentrant.New(s, "a", signalbox.WithFixedLease(life)), reentrant.New(locktest.SteadySession(t, server), "a")
	requireFree(t, elsewhere)
	before := locktest.ServerTime(t, server)
	lease := locktest.Must(t, mu.Lock)
	after := locktest.ServerTime(t, server)

	h := requireHolder(t, elsewhere)
	require.Equal(t, h, requireHolder(t, mu), "all callers get the same")
	require.Equal(t, "reentrant", h.Kind)
	require.Equal(t, "Schicht 3, Ölpresse", h.Label)
	require.Equal(t, s.ID(), h.Session)
	require.Equal(t, lease.Token(), h.Token)
	require.False(t, h.Since.Before(before), "since %v, before %v", h.Since, before)
	require.False(t, h.Since.After(after))
	// Keys end at whole milliseconds.
	require.False(t, h.Until.Before(before.Add(life-time.Millisecond)), "until %v", h.Until)
	require.False(t, h.Until.After(after.Add(life+time.Millisecond)), "until %v", h.Until)

	require.NoError(t, lease.Unlock())
	requireFree(t, elsewhere)
}

func TestTheLabelIsHostAndProcessByDefault(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	for want, s := range map[string]*signalbox.Session{
		fmt.Sprintf("%s:%d", host, os.Getpid()): locktest.SteadySession(t, server),
		"":                                      locktest.SteadySession(t, server, signalbox.WithLabel("")),
		strings.Repeat("x", 64):                 locktest.SteadySession(t, server, signalbox.WithLabel(strings.Repeat("x", 64))),
	} {
		mu := reentrant.New(s, "of "+s.ID())
		lease := locktest.Must(t, mu.Lock)
		require.Equal(t, want, requireHolder(t, mu).Label)
		waiting := locktest.Enqueue(t.Context(), t, server, "of "+s.ID(), reentrant.New(locktest.SteadySession(t, server), "of "+s.ID()).Lock)
		require.Equal(t, want, requireHolder(t, mu).Label, "a waiter's mark spoils it")
		require.NoError(t, lease.Unlock())
		require.NoError(t, redistest.Receive(t, "the lock", waiting).Value.Unlock())
	}
}

func TestHolderNamesALockOfAnotherKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a")
	id := strings.Repeat("x", 22)
	for letter, kind := range map[string]string{"q": "redlock", "z": "z"} {
		server.MustDo(t, "SET", locktest.Key("a"), "sb1"+letter+"1795246514376753"+id+strings.Repeat("y", 19)+strings.Repeat("-", 22)+"a:1", "PX", 60_000)
		h := requireHolder(t, mu)
		require.Equal(t, kind, h.Kind)
		require.Equal(t, id, h.Session)
		require.Equal(t, "a:1", h.Label)
		require.Equal(t, time.UnixMicro(1795246514376753), h.Since)
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorContains(t, err, "("+kind+")")
		before := server.MustDo(t, "DUMP", locktest.Key("a"))
		require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
		require.Equal(t, before, server.MustDo(t, "DUMP", locktest.Key("a")))
	}
}

func TestHolderReportsAKeyWithoutAnEnd(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(locktest.SteadySession(t, server), "a", signalbox.WithRenewedLease(longest)) // a renewal would give it one
	lease := locktest.Must(t, mu.Lock)
	server.MustDo(t, "PERSIST", locktest.Key("a"))
	require.True(t, requireHolder(t, mu).Until.IsZero())
	require.NoError(t, lease.Unlock())
}
