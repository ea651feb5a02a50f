// SPDX-License-Identifier: Apache-2.0

package setnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
)

func TestNameIsUsedUnchanged(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]string{
		"order/42": "p:{order/42}:unlocked", "a:{b}:c": "p:{b}:unlocked", "{a": "p:{{a}:unlocked", "a b\x00": "p:{a b\x00}:unlocked",
	} {
		set, err := makeNames(names.NamingOptions{Prefix: "p:", Clustered: true}, name)
		require.NoError(t, err, name)
		require.Equal(t, name, set.Holder)
		require.Equal(t, channel, set.More)
		require.Equal(t, names.Tag(name), names.Tag(set.More), "one slot")
	}
	for _, name := range []string{"a}b", "}{", "{}a"} {
		_, err := makeNames(names.NamingOptions{Prefix: "p:", Clustered: true}, name)
		require.Error(t, err, name)
		_, err = makeNames(names.NamingOptions{Prefix: "p:"}, name)
		require.NoError(t, err, name)
	}
	_, err := makeNames(names.NamingOptions{}, "")
	require.Error(t, err)
}
