// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/redistest"
)

// programVariable makes this test binary the program.
const programVariable = "SIGNALBOX_CRON_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The processes need no server and no arguments, and do each tick once, though one run fails.
func TestCronRunsOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	requireTicks(t, "", `^Using an embedded server`)
}

func TestCronRunsOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	requireTicks(t, server.URL(), `^Using the server that SIGNALBOX_REDIS names\.$`)
	for _, key := range server.Keys("*") {
		require.Positive(t, server.MustDo(t, "PTTL", key), "%s has no end", key)
	}
}

func requireTicks(t *testing.T, url, greeting string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(command.Environ(), programVariable+"=1", serverVariable+"="+url,
		"GORACE=atexit_sleep_ms=0") // or the process takes a second to end under the race detector
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	require.Regexp(t, regexp.MustCompile(`(?m)`+greeting), string(output))
	require.Len(t, regexp.MustCompile(`(?m)^process [1-5] did tick [1-6]$`).FindAllString(string(output), -1), ticks)
	require.Len(t, regexp.MustCompile(`(?m)^process [1-5] failed in tick 3$`).FindAllString(string(output), -1), 1)
	require.Regexp(t, regexp.MustCompile(`(?m)^5 processes did each of 6 ticks once\.$`), string(output))
}
