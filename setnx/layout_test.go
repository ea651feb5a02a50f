// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/proto"
	"github.com/signalbox-go/signalbox/internal/wire"
)

const sessionID = "AAECAwQFBgcICQoLDA0ODw"

// P9: a hold names its session, and the same attempt of two copies of a process is two holds.
func TestHoldNamesItsSession(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for n := range uint64(1000) {
		for range 2 {
			hold := table.Hold(sessionID, n)
			require.Equal(t, sessionID, table.Session(hold))
			require.Len(t, hold, proto.HoldSize)
			require.False(t, seen[hold])
			seen[hold] = true
		}
	}
}

// What other clients write names no session of this library.
func TestValueOfAnotherClientNamesNoSession(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"", "1", "mMGNIrAIWHWLOnmFMrqHQQ==", strings.Repeat("a", 40), strings.Repeat("a", 40) + "+", strings.Repeat("a", 42)} {
		require.Empty(t, table.Session(value), value)
	}
}

func TestNameIsUsedUnchanged(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]string{
		"order/42": "p:{order/42}:unlocked", "a:{b}:c": "p:{b}:unlocked", "{a": "p:{{a}:unlocked", "a b\x00": "p:{a b\x00}:unlocked",
	} {
		set, err := makeNames(proto.NamingOptions{Prefix: "p:", Clustered: true}, name)
		require.NoError(t, err, name)
		require.Equal(t, name, set.Holder)
		require.Equal(t, channel, set.More)
		require.Equal(t, wire.Tag(name), wire.Tag(set.More), "one slot")
	}
	for _, name := range []string{"a}b", "}{", "{}a"} {
		_, err := makeNames(proto.NamingOptions{Prefix: "p:", Clustered: true}, name)
		require.Error(t, err, name)
		_, err = makeNames(proto.NamingOptions{Prefix: "p:"}, name)
		require.NoError(t, err, name)
	}
	_, err := makeNames(proto.NamingOptions{}, "")
	require.Error(t, err)
}
