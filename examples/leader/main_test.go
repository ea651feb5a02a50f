// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// programVariable makes this test binary the program.
const programVariable = "SIGNALBOX_LEADER_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The program needs no server and no arguments.
func TestTheServiceRunsOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	requireRun(t, "", "Using an embedded server, in memory. Name a real one with SIGNALBOX_REDIS=redis://host:6379.")
}

func TestTheServiceRunsOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	requireRun(t, server.URL(), "Using the server that SIGNALBOX_REDIS names.")
	for _, key := range server.Keys("*") {
		require.True(t, strings.HasPrefix(key, prefix), key)
		require.Positive(t, server.MustDo(t, "PTTL", key), key)
	}
}

// requireRun runs the program and checks what it says.
func requireRun(t *testing.T, url, greeting string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(program.Environ(), programVariable+"=1", serverVariable+"="+url,
		"GORACE=atexit_sleep_ms=0") // or it takes a second to end under the race detector
	var stderr bytes.Buffer
	program.Stderr = &stderr
	output, err := program.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	require.Equal(t, []string{
		greeting,
		"requests go to a, with a greater token: true",
		"a is terminated",
		"requests go to b, with a greater token: true",
		"b crashes",
		"requests go to c, with a greater token: true",
		"c is terminated",
		"no process leads",
	}, strings.Split(strings.TrimSpace(string(output)), "\n"))
}
