// SPDX-License-Identifier: Apache-2.0

// Package demotest runs the examples in their tests, as a user would.
package demotest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demo"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// programVariable makes a test binary the program, as it makes those that the program starts.
const programVariable = "SIGNALBOX_EXAMPLE_TEST"

// logged is what the library may log: that a lease was lost, where the program shows a loss; and that replies are late, which
// says only that the machine is busy.
const logged = "signalbox: (a lease was lost|the server can|no unlock messages|unlock messages arrive|the server did not confirm)"

// Main is the TestMain of an example.
func Main(m *testing.M, main func()) {
	if os.Getenv(programVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// OnBothServers runs the program on its embedded server and on a real one, and passes the lines that it prints after
// the greeting to check. On the real server all keys that it leaves behind must end by themselves.
func OnBothServers(t *testing.T, check func(t *testing.T, lines []string)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		check(t, run(t, "", demo.GreetingEmbedded))
	})
	t.Run("real", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		check(t, run(t, server.URL(), demo.GreetingReal))
		for _, key := range server.Keys("*") {
			require.Positive(t, server.MustDo(t, "PTTL", key), "%s has no end", key)
		}
	})
}

func run(t *testing.T, url, greeting string) []string {
	t.Helper()
	program := Program(t, url)
	var stderr bytes.Buffer
	program.Stderr = &stderr
	output, err := program.Output()
	require.NoError(t, err, "%s%s", output, stderr.String())
	for line := range strings.Lines(stderr.String()) {
		require.Regexp(t, logged, line)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	require.Equal(t, greeting, lines[0])
	return lines[1:]
}

// Program returns the program, to be started in a process of its own with the server at url, or with its own server.
func Program(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	program := exec.CommandContext(t.Context(), self)
	program.Env = append(program.Environ(), programVariable+"=1", demo.ServerVariable+"="+url,
		"GORACE=atexit_sleep_ms=0") // or each process takes a second to end under the race detector
	return program
}
