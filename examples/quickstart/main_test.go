// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/examples/internal/demotest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

func TestMain(m *testing.M) { demotest.Main(m, main) }

func TestTheTourShowsAllOfIt(t *testing.T) {
	t.Parallel()
	demotest.OnBothServers(t, func(t *testing.T, lines []string) {
		t.Helper()
		output := strings.Join(lines, "\n")
		for _, line := range []string{
			`^1\. Processes acquire one lock in turn, and no update is lost$`,
			`^   4 processes added 1, 25 times each\. The counter says 100\.$`,
			`^2\. Every lease has a token, and tokens rise$`,
			`^   Three leases, three tokens: \d{15,16} < \d{15,16} < \d{15,16}\.$`,
			`^3\. The holder can enter again; others cannot$`,
			`^   With the holder's context: entered again, same token \(true\), no round trip\.$`,
			`^   With any other context: the lock is held\.$`,
			`^4\. A lease is renewed while the lock is held$`,
			`^   A lease of 500ms, held for 1\.25s: still good, until \d\d:\d\d:\d\d\.\d{3} at least\.$`,
			`^5\. A holder is killed, and its lock goes to the next waiter$`,
			`^   A process holds the lock, with token \d{15,16}$`,
			`^   It is killed\. Its lease of 500ms ends, and \d+\.\d s later the next holder has a greater token \(true\)\.$`,
			`^That is all\. README\.md and the docs of package reentrant have the rest\.$`,
		} {
			require.Regexp(t, `(?m)`+line, output)
		}
		require.NotContains(t, output, "false")
	})
}

// A server that is not there is one line on standard error, and no tour.
func TestNoServerIsOneLineOfError(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.Refuse()
	tour := demotest.Program(t, proxy.URL())
	var stdout, stderr bytes.Buffer
	tour.Stdout, tour.Stderr = &stdout, &stderr
	var failed *exec.ExitError
	require.ErrorAs(t, tour.Run(), &failed)
	require.Equal(t, 1, failed.ExitCode())
	require.Empty(t, stdout.String())
	require.Regexp(t, `^quickstart: SIGNALBOX_REDIS: signalbox: dial: .*connection refused\n$`, stderr.String())
}
