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
