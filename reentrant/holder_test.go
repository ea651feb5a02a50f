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
	"github.com/signalbox-go/signalbox/internal/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// serverTime answers the server's time.
func serverTime(t *testing.T, server *redistest.Server) time.Time {
	t.Helper()
	parts, _ := server.MustDo(t, "TIME").([]any)
	require.Len(t, parts, 2)
	return time.Unix(integer(t, parts[0]), 1000*integer(t, parts[1]))
}

// requireHolder answers who has the lock.
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

func TestAHolderIsTold(t *testing.T) {
	t.Parallel()
	const life = 10 * time.Minute
	server := redistest.Start(t)
	s := newSession(t, server, signalbox.WithLabel("Schicht 3, Ölpresse"))
	mu, elsewhere := reentrant.New(s, "a", signalbox.FixedLease(life)), reentrant.New(newSession(t, server), "a")
	requireFree(t, elsewhere)
	before := serverTime(t, server)
	lease := mustLock(t, mu)
	after := serverTime(t, server)

	h := requireHolder(t, elsewhere)
	require.Equal(t, h, requireHolder(t, mu), "everybody is told the same")
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

func TestASessionSaysHostAndProcessUnlessItIsToldOtherwise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	for want, s := range map[string]*signalbox.Session{
		fmt.Sprintf("%s:%d", host, os.Getpid()): newSession(t, server),
		"":                                      newSession(t, server, signalbox.WithLabel("")),
		strings.Repeat("x", 64):                 newSession(t, server, signalbox.WithLabel(strings.Repeat("x", 64))),
	} {
		mu := reentrant.New(s, "of "+s.ID())
		lease := mustLock(t, mu)
		require.Equal(t, want, requireHolder(t, mu).Label)
		waiting := contend(t.Context(), t, server, reentrant.New(newSession(t, server), "of "+s.ID()), "of "+s.ID())
		require.Equal(t, want, requireHolder(t, mu).Label, "a waiter's mark spoils it")
		require.NoError(t, lease.Unlock())
		require.NoError(t, within(t, "the lock", waiting).lease.Unlock())
	}
}

func TestAHolderThatPassedTheLockOnIsTheSameProcess(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSession(t, server)
	mu := reentrant.New(s, "a")
	// Passing on asks nobody for 20 ms: a slow machine may need another try.
	await(t, "a turn within 20 ms, with the block of tokens that there was", func() bool {
		first := mustLock(t, mu)
		told := requireHolder(t, mu)
		waiting := queue(t.Context(), t, mu)
		require.NoError(t, first.Unlock())
		passed := within(t, "the lock", waiting)
		require.NoError(t, passed.err)
		again := requireHolder(t, mu)
		require.Equal(t, told.Session, again.Session)
		require.Greater(t, passed.lease.Token(), told.Token)
		require.NoError(t, passed.lease.Unlock())
		return again.Token == told.Token // the first of the block
	})
}

func TestALockOfAnotherKindIsToldWithItsKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	id := strings.Repeat("x", 22)
	for letter, kind := range map[string]string{"f": "fair", "z": "z"} {
		server.MustDo(t, "SET", holderKey("a"), "sb1"+letter+"1795246514376753"+id+strings.Repeat("y", 19)+"9999999999999999------a:1", "PX", 60_000)
		h := requireHolder(t, mu)
		require.Equal(t, kind, h.Kind)
		require.Equal(t, id, h.Session)
		require.Equal(t, "a:1", h.Label)
		require.Equal(t, time.UnixMicro(1795246514376753), h.Since)
		_, err := mu.TryLock(t.Context())
		require.ErrorIs(t, err, signalbox.ErrWrongKind)
		require.ErrorContains(t, err, "("+kind+")")
		before := server.MustDo(t, "DUMP", holderKey("a"))
		require.ErrorIs(t, mu.ForceUnlock(t.Context()), signalbox.ErrWrongKind)
		require.Equal(t, before, server.MustDo(t, "DUMP", holderKey("a")))
	}
}

// P9: a read-write lock's key is a sorted set.
func TestAReadWriteLockIsToldWithItsKind(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	id, ends := strings.Repeat("x", 22), time.Now().Add(time.Minute).Truncate(time.Millisecond)
	server.MustDo(t, "ZADD", holderKey("a"), "-1795246514376753", "sb1w", 0, "phase", ends.UnixMicro(), id+strings.Repeat("y", 19)+"a:1")
	h := requireHolder(t, mu)
	require.Equal(t, "rwlock", h.Kind)
	require.Equal(t, id, h.Session)
	require.Equal(t, "a:1", h.Label)
	require.Equal(t, time.UnixMicro(1795246514376753), h.Since)
	require.Equal(t, ends.UnixMilli(), h.Until.UnixMilli())
	before := server.MustDo(t, "DUMP", holderKey("a"))
	_, err := mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "(rwlock)")
	err = mu.ForceUnlock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	require.ErrorContains(t, err, "(rwlock)")
	require.Equal(t, before, server.MustDo(t, "DUMP", holderKey("a")))
}

// P9: a sorted set that says nothing of us is somebody else's.
func TestAForeignSortedSetIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	server.MustDo(t, "ZADD", holderKey("a"), 1, "x")
	_, err := mu.Holder(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
	_, err = mu.TryLock(t.Context())
	require.ErrorIs(t, err, signalbox.ErrWrongKind)
}

func TestAKeyWithoutAnEndIsTold(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a", signalbox.RenewedLease(longest)) // a renewal would give it one
	lease := mustLock(t, mu)
	server.MustDo(t, "PERSIST", holderKey("a"))
	require.True(t, requireHolder(t, mu).Until.IsZero())
	require.NoError(t, lease.Unlock())
}

// P7: one round trip, which changes nothing.
func TestToAskForAHolderIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	mu := reentrant.New(newSession(t, server), "a")
	_, _ = mu.IsLocked(t.Context()) // the script is known from here on
	server.MustDo(t, "SET", holderKey("a"), "sb1r1795246514376753"+strings.Repeat("x", 41)+strings.Repeat("-", 22))
	require.Equal(t, map[string]int64{"evalsha": 1, "get": 1, "pexpiretime": 1}, sentBy(server, func() { requireHolderOnce(t, mu) }))
}

func requireHolderOnce(t *testing.T, mu *reentrant.Lock) {
	t.Helper()
	_, err := mu.Holder(t.Context())
	require.NoError(t, err)
}
