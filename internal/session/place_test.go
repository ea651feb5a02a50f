// SPDX-License-Identifier: Apache-2.0

package session_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/session"
)

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
