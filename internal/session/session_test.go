// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/timers"
	"github.com/signalbox-go/signalbox/internal/wire"
)

// P5: an id is never used twice: not by another session, nor for another attempt.
func TestHoldIDsAreUniqueAndNameTheirSession(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	shape := regexp.MustCompile(`^[A-Za-z0-9_-]{41}$`)
	seen := make(map[string]bool)
	for range 3 {
		s := newSession(t, server)
		require.Len(t, s.ID(), 22)
		for range 1_000 {
			id := s.NewHold()
			require.Regexp(t, shape, id)
			require.True(t, strings.HasPrefix(id, s.ID()))
			require.False(t, seen[id])
			seen[id] = true
		}
	}
}

// P4: a call that creates state may take effect for as long as its lease, and 3 s at most.
func TestNotAfterIsTheLeaseAndThreeSecondsAtMost(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	began := time.Now()
	require.NoError(t, s.Handshake(t.Context(), "sb:{a}:lock"))
	took := time.Since(began) // the server's time is known as well as that
	now := timers.Now()
	for life, most := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 100 * time.Millisecond,
		3 * time.Second:        3 * time.Second,
		24 * time.Hour:         3 * time.Second,
	} {
		// The server's clock is this host's.
		notAfter := time.UnixMicro(int64(s.NotAfter(0, now, life)))
		require.WithinDuration(t, now.Time().Add(most), notAfter, took+50*time.Millisecond)
	}
}

// P7: redistest.Patience ends by itself, shows no deadline to the client, and is reused only when it can no
// longer end.
func TestPatienceIsNeverReusedAfterItsEnd(t *testing.T) {
	t.Parallel()
	s := newSession(t, redistest.Start(t))
	p := s.Patient(5 * time.Millisecond)
	_, dated := p.Deadline()
	require.False(t, dated)
	redistest.Receive(t, "the end of redistest.Patience", p.Done())
	require.Error(t, p.Err())
	p.End()

	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			for range 500 {
				s.Patient(time.Duration(i) * time.Millisecond / 4).End()
			}
		})
	}
	users.Wait()
	for range 100 {
		p := s.Patient(time.Hour)
		require.NoError(t, p.Err())
		p.End()
	}
}

// P9: the key of a read-write lock is a sorted set. A force of another kind leaves it alone.
func TestHolderIsTheOneThatExpiresLast(t *testing.T) {
	t.Parallel()
	const key, floor = "sb:{a}:lock", int64(1_795_246_514_376_753)
	server := redistest.Start(t)
	s := newSession(t, server)
	id, ends := strings.Repeat("x", 22), time.Now().Add(time.Minute).Truncate(time.Millisecond)
	server.MustDo(t, "ZADD", key, -floor, "sb1w", 0, "phase",
		ends.Add(-time.Second).UnixMicro(), strings.Repeat("v", 41)+"b:1", ends.UnixMicro(), id+strings.Repeat("y", 19)+"a:1")
	h, err := s.Holder(t.Context(), proto.Native(), key)
	require.NoError(t, err)
	require.Equal(t, "rwlock", h.Kind)
	require.Equal(t, "a:1", h.Label)
	require.Equal(t, id, h.Session)
	require.Equal(t, time.UnixMicro(floor), h.Since)
	require.Equal(t, ends.UnixMilli(), h.Until.UnixMilli())

	before := server.MustDo(t, "DUMP", key)
	err = s.Force(t.Context(), session.ForceRequest{Layout: proto.Native(), Key: key, CompatibleKinds: "rf", Call: func(string, string) wire.Call {
		require.Fail(t, "it is not the kind that was asked for")
		return wire.Call{}
	}})
	require.ErrorIs(t, err, errs.ErrWrongKind)
	require.ErrorContains(t, err, "(rwlock)")
	require.Equal(t, before, server.MustDo(t, "DUMP", key))

	server.MustDo(t, "ZREMRANGEBYSCORE", key, 3, "+inf")
	_, err = s.Holder(t.Context(), proto.Native(), key)
	require.ErrorIs(t, err, errs.ErrNotHeld)
}

func TestPositionsAreOrderedBySlotAndKey(t *testing.T) {
	t.Parallel()
	want := []session.Place{
		{Slot: 1, Key: "b", Kind: "fair"}, {Slot: 1, Key: "b", Kind: "reentrant"}, {Slot: 1, Key: "c"}, {Slot: 2, Key: "a"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, session.Compare)
	require.Equal(t, want, got)
}

func TestPositionsOfBothSidesAreTheSameLock(t *testing.T) {
	t.Parallel()
	s := new(session.Session)
	one := session.Place{Session: s, Key: "a", Kind: "rwlock"}
	for name, c := range map[string]struct {
		other session.Place
		want  bool
	}{
		"the same":        {one, true},
		"another access":  {session.Place{Session: s, Key: "a", Kind: "rwlock", Access: session.SharedAccess}, true},
		"another key":     {session.Place{Session: s, Key: "b", Kind: "rwlock"}, false},
		"another kind":    {session.Place{Session: s, Key: "a", Kind: "fair"}, false},
		"another session": {session.Place{Session: new(session.Session), Key: "a", Kind: "rwlock"}, false},
	} {
		require.Equal(t, c.want, session.Same(one, c.other), name)
	}
}
