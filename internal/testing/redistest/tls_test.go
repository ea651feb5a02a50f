// SPDX-License-Identifier: Apache-2.0

package redistest_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestServerBuiltWithoutTLSSaysWhatToDo(t *testing.T) {
	script := filepath.Join(t.TempDir(), "my-server")
	text := "#!/bin/sh\necho \"Bad directive or wrong number of arguments: tls-port\" >&2\nexit 1\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	t.Setenv(redistest.ServerEnv, script)
	_, err := redistest.StartServer(redistest.WithTLS())
	require.ErrorContains(t, err, "built without TLS")
	require.ErrorContains(t, err, redistest.ServerEnv)
}
