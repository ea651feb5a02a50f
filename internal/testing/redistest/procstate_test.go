// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessIsStoppedOnlyIfEveryThreadIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		states    string
		all, none bool
	}{
		{"", false, false}, // no such process
		{"T", true, false},
		{"TTT", true, false},
		{"TST", false, false},
		{"SRD", false, true},
	} {
		require.Equal(t, c.all, allStopped([]byte(c.states)), c.states)
		require.Equal(t, c.none, noneStopped([]byte(c.states)), c.states)
	}
	require.True(t, noneStopped(threadStates(os.Getpid())))
	require.Greater(t, len(threadStates(os.Getpid())), 1)
}
