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

// programVariable makes this test binary the program, as it makes those that the program starts.
const programVariable = "SIGNALBOX_WORKERS_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// The pool needs no server and no arguments, and never has more out than there is.
func TestThePoolRunsOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	requirePool(t, "", `^Using an embedded server`)
}

// On a real server the workers are processes.
func TestThePoolRunsOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	requirePool(t, server.URL(), `^Using the server that SIGNALBOX_REDIS names, with a process for each worker\.$`)
	for _, key := range server.Keys("*") {
		require.Positive(t, server.MustDo(t, "PTTL", key), "%s has no end", key)
	}
}

func requirePool(t *testing.T, url, greeting string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(command.Environ(), programVariable+"=1", serverVariable+"="+url, workerVariable+"=",
		"GORACE=atexit_sleep_ms=0") // or each process takes a second to end under the race detector
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())
	require.Regexp(t, regexp.MustCompile(`(?m)`+greeting), string(output))
	require.Len(t, regexp.MustCompile(`(?m)^worker [1-4] does job [1-6] with [12] of 3 permits$`).FindAllString(string(output), -1), workers*jobs)
	require.Regexp(t, regexp.MustCompile(`(?m)^4 workers did 24 jobs\. At the most [0-3] of 3 permits were out, and 3 are free\.$`), string(output))
}
