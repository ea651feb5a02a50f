// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// If the environment says that there is no server, tests that need one are skipped with a reason, and none fails.
func TestNoneSkipsTestsThatNeedAServer(t *testing.T) {
	t.Setenv(redistest.ServerEnv, "none")
	var skipped bool
	t.Run("Needs", func(t *testing.T) {
		defer func() { skipped = t.Skipped() }()
		redistest.Start(t)
	})
	require.True(t, skipped)
}

// A server that has not loaded its data refuses commands: a restart returns when it has.
func TestARestartWaitsUntilTheDataIsLoaded(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.WithArgs("--dir", t.TempDir(), "--appendonly", "yes", "--key-load-delay", "200"))
	server.MustDo(t, "EVAL", "for n = 1, 3000 do redis.call('SET', n, '') end", "0")
	server.Restart()
	require.EqualValues(t, 3000, server.MustDo(t, "DBSIZE"))
}
