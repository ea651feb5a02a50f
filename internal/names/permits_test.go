// SPDX-License-Identifier: Apache-2.0

package names_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/names"
)

// P9: the keys of a semaphore belong to no lock, whatever its name, and are in the semaphore's slot.
func TestPermitKeysAreNotSharedWithLocks(t *testing.T) {
	t.Parallel()
	seen := make(map[string]string)
	for _, name := range []string{
		"a", "a:permits", "a:permits:queue", "a}:permits", "{a}", "a{", "a:lock", "a:queue", ":permits", "permits:heartbeats",
	} {
		set, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, name)
		require.NoError(t, err)
		for _, key := range []string{
			set.Holder, set.Unlocked(), set.QueueKey(), set.HeartbeatsKey(), set.Writers(), set.Readers(), set.RWHeartbeats(), set.Grants(), set.Permits(), set.PermitsQueue(), set.PermitsHeartbeats(),
		} {
			require.Empty(t, seen[key], "%s is also a key of %s", key, name)
			seen[key] = name
			require.Contains(t, key, "{"+names.Encode(name)+"}:")
		}
	}
	set, err := names.Native(names.NamingOptions{Prefix: names.DefaultPrefix}, "a")
	require.NoError(t, err)
	require.Equal(t, "sb:{a}:permits", set.Permits())
	require.Equal(t, "sb:{a}:permits:queue", set.PermitsQueue())
	require.Equal(t, "sb:{a}:permits:heartbeats", set.PermitsHeartbeats())
}
