// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
)

// Every kind can be broken, by its constant, and there is no other.
func TestEveryKindCanBeBroken(t *testing.T) {
	t.Parallel()
	var kinds, broken []string
	for _, kind := range proto.All {
		require.Same(t, kind, proto.KindOf(kind.Name))
		require.Equal(t, kind.Key == nil, kind.Read == nil, kind.Name)
		kinds = append(kinds, kind.Name)
	}
	for kind := range breakers {
		broken = append(broken, kind)
	}
	require.ElementsMatch(t, kinds, broken)
	require.ElementsMatch(t, slices.Concat(kinds, []string{Exclusive, Foreign, Number}), Kinds())
}

func TestSummaryOfAnEntry(t *testing.T) {
	t.Parallel()
	for want, e := range map[string]Entry{
		"2 of 5 missing":                                       {Kind: Countdown, Total: 5, Left: 2},
		"1 member, 3 of 8 shards unowned":                      {Kind: Shards, HolderCount: 1, Shards: 8, Unowned: 3},
		"an outcome is stored, of a run that began -, until -": {Kind: Once},
	} {
		require.Equal(t, want, e.Summary())
	}
	for _, kind := range []string{Reentrant, RWLock, Foreign, "of a later release", ""} {
		require.Empty(t, Entry{Kind: kind, HolderCount: 1}.Summary())
	}
}

func TestHeldEntryHasHoldersOrARound(t *testing.T) {
	t.Parallel()
	for _, kind := range Kinds() {
		require.Equal(t, kind == Countdown, Entry{Kind: kind, WaiterCount: 1}.IsHeld(), kind)
		require.True(t, Entry{Kind: kind, HolderCount: 1}.IsHeld(), kind)
	}
	require.False(t, Entry{}.IsHeld())
}
