// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestServerNamedByTheEnvironmentIsRun(t *testing.T) {
	script := filepath.Join(t.TempDir(), "my-server")
	text := "#!/bin/sh\nexec redis-server \"$@\" --maxclients 77\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv(redistest.ServerEnv, script)
	s := redistest.Start(t)
	require.Equal(t, []any{"maxclients", "77"}, s.MustDo(t, "CONFIG", "GET", "maxclients"))
}

// On a loaded machine a script can take long, and the clients of other tests wait for it.
func TestServerIsNeverBusy(t *testing.T) {
	t.Parallel()
	require.Equal(t, []any{"lua-time-limit", "0"}, redistest.Start(t).MustDo(t, "CONFIG", "GET", "lua-time-limit"))
}
