// SPDX-License-Identifier: Apache-2.0

package redisson

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
)

func TestKeyIsTheName(t *testing.T) {
	t.Parallel()
	for name, channel := range map[string]string{
		"order/42":    "redisson_lock__channel:{order/42}",
		"{map}:a:rw":  "redisson_lock__channel:{map}:a:rw",
		"a{b":         "redisson_lock__channel:a{b",
		"größer *?\n": "redisson_lock__channel:{größer *?\n}",
	} {
		set, err := makeNames(names.NamingOptions{Prefix: "sb:"}, name)
		require.NoError(t, err)
		require.Equal(t, names.NewSet(name, channel), set)
	}
}

func TestNamesAreValid(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", strings.Repeat("x", names.MaxBytes+1)} {
		_, err := makeNames(names.NamingOptions{}, bad)
		require.Error(t, err)
	}
}

// P9: in a cluster a name whose key and channel would be in two slots is refused; without a cluster it is
// valid.
func TestCluster_NameThatIsSplitIsRefused(t *testing.T) {
	t.Parallel()
	for name, good := range map[string]bool{
		"a": true, "{a}": true, "a{b}c": true, "{a}{b}": true, "a{b}c}": true,
		"a{b": false, "a{}b": false, "a}b": false, "{": false, "}": false, "{}": false, "a{}{b}": false,
	} {
		_, err := makeNames(names.NamingOptions{}, name)
		require.NoError(t, err, name)
		_, err = makeNames(names.NamingOptions{Clustered: true}, name)
		if good {
			require.NoError(t, err, name)
		} else {
			require.Error(t, err, name)
		}
	}
}

// P9: two names have two keys; channels they may share, and that is said.
func FuzzNamesNeverMeet(f *testing.F) {
	f.Add("a", "b")
	f.Add("a", "{a}")
	f.Add("a}b", "a")
	f.Fuzz(func(t *testing.T, a, b string) {
		setOfA, errOfA := makeNames(names.NamingOptions{Clustered: true}, a)
		setOfB, errOfB := makeNames(names.NamingOptions{Clustered: true}, b)
		if errOfA != nil || errOfB != nil {
			return
		}
		require.Equal(t, a == b, setOfA.Holder == setOfB.Holder)
		require.Equal(t, names.Tag(setOfA.Holder), names.Tag(setOfA.More), "one slot")
	})
}

func TestChannelMayBeSharedByTwoNames(t *testing.T) {
	t.Parallel()
	a, err := makeNames(names.NamingOptions{}, "a")
	require.NoError(t, err)
	braced, err := makeNames(names.NamingOptions{}, "{a}")
	require.NoError(t, err)
	require.Equal(t, a.More, braced.More)
	require.NotEqual(t, a.Holder, braced.Holder)
}
