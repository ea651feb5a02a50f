// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/errs"
	"github.com/signalbox-go/signalbox/internal/layout"
	"github.com/signalbox-go/signalbox/internal/session"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/internal/wire"
)

func TestKindIsNamedByItsLetter(t *testing.T) {
	t.Parallel()
	for letter, name := range map[string]string{"r": "reentrant", "f": "fair", "w": "rwlock", "z": "z"} {
		require.Equal(t, name, session.KindName(letter))
		require.ErrorIs(t, session.WrongKind(letter), errs.ErrWrongKind)
		require.ErrorContains(t, session.WrongKind(letter), "("+name+")")
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
	h, err := s.Holder(t.Context(), layout.Native(), key)
	require.NoError(t, err)
	require.Equal(t, "rwlock", h.Kind)
	require.Equal(t, "a:1", h.Label)
	require.Equal(t, id, h.Session)
	require.Equal(t, time.UnixMicro(floor), h.Since)
	require.Equal(t, ends.UnixMilli(), h.Until.UnixMilli())

	before := server.MustDo(t, "DUMP", key)
	err = s.Force(t.Context(), session.ForceRequest{Layout: layout.Native(), Key: key, CompatibleKinds: "rf", Call: func(string, string) wire.Call {
		require.Fail(t, "it is not the kind that was asked for")
		return wire.Call{}
	}})
	require.ErrorIs(t, err, errs.ErrWrongKind)
	require.ErrorContains(t, err, "(rwlock)")
	require.Equal(t, before, server.MustDo(t, "DUMP", key))

	server.MustDo(t, "ZREMRANGEBYSCORE", key, 3, "+inf")
	_, err = s.Holder(t.Context(), layout.Native(), key)
	require.ErrorIs(t, err, errs.ErrNotHeld)
}
