// SPDX-License-Identifier: Apache-2.0

package member_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-go/signalbox/internal/member"
	"github.com/signalbox-go/signalbox/internal/session"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPlacesAreInOrderBySlotAndThenByKey(t *testing.T) {
	t.Parallel()
	want := []member.Place{
		{Slot: 1, Key: "b", Kind: "fair"}, {Slot: 1, Key: "b", Kind: "reentrant"}, {Slot: 1, Key: "c"}, {Slot: 2, Key: "a"},
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, member.Compare)
	require.Equal(t, want, got)
}

func TestPlacesAreTheSameLockOnWhateverSide(t *testing.T) {
	t.Parallel()
	s := new(session.Session)
	one := member.Place{Session: s, Key: "a", Kind: "rwlock"}
	for name, c := range map[string]struct {
		other member.Place
		want  bool
	}{
		"the same":        {one, true},
		"another side":    {member.Place{Session: s, Key: "a", Kind: "rwlock", Side: member.Shared}, true},
		"another key":     {member.Place{Session: s, Key: "b", Kind: "rwlock"}, false},
		"another kind":    {member.Place{Session: s, Key: "a", Kind: "fair"}, false},
		"another session": {member.Place{Session: new(session.Session), Key: "a", Kind: "rwlock"}, false},
	} {
		require.Equal(t, c.want, member.Same(one, c.other), name)
	}
}
