// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/locktest"
	"github.com/signalbox-go/signalbox/internal/redistest"
)

// programVariable makes this test binary the program, as it makes those that the program starts. It says how short
// shortLease is.
const programVariable = "SIGNALBOX_QUICKSTART_TEST"

func TestMain(m *testing.M) {
	if text := os.Getenv(programVariable); text != "" {
		var err error
		if shortLease, err = time.ParseDuration(text); err != nil {
			panic(err) // the test's own mistake
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// tourLease is what shortLease is in a tour. One that is lost, on a machine that stands still, is taken again.
func tourLease() string {
	if testing.Short() {
		return "200ms"
	}
	return "1s"
}

// The tour needs no server and no arguments.
func TestTheTourRunsOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	requireTour(t, "",
		`^Using an embedded server, in memory\. Name a real one with SIGNALBOX_REDIS=redis://host:6379\.$`,
		`^   4 goroutines, each with a session of its own added 1, 25 times each\. The counter says 100\.$`,
		`^   A holder has the lock\. Now it is cut off, and cannot renew\.$`,
	)
}

// On a real server the workers are processes, and the holder that dies is killed.
func TestTheTourRunsOnARealServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	requireTour(t, server.URL(),
		`^Using the server that SIGNALBOX_REDIS names\.$`,
		`^   4 processes added 1, 25 times each\. The counter says 100\.$`,
		`^   A process holds the lock\. Now it is killed\.$`,
	)
	// It leaves nothing behind that does not end by itself, and nothing that is held.
	for _, key := range server.Keys("*") {
		require.True(t, strings.HasPrefix(key, prefix), key)
		require.Positive(t, server.MustDo(t, "PTTL", key), key)
		if strings.HasSuffix(key, ":lock") {
			value, _ := server.MustDo(t, "GET", key).(string)
			require.False(t, locktest.IsHeld(value), key)
		}
	}
}

// A server that is not there is one line on standard error, and no tour.
func TestTheTourSaysThatThereIsNoServer(t *testing.T) {
	t.Parallel()
	proxy := redistest.NewProxy(t, redistest.Start(t).Addr())
	proxy.Refuse()
	tour := program(t, proxy.URL())
	var stdout, stderr bytes.Buffer
	tour.Stdout, tour.Stderr = &stdout, &stderr
	var failed *exec.ExitError
	require.ErrorAs(t, tour.Run(), &failed)
	require.Equal(t, 1, failed.ExitCode())
	require.Empty(t, stdout.String())
	require.Regexp(t, `^quickstart: SIGNALBOX_REDIS: signalbox: dial: .*connection refused\n$`, stderr.String())
}

// program returns the program, to be started in a process of its own with the server at url, or
// with its own.
func program(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(t.Context(), self)
	command.Env = append(command.Environ(), programVariable+"="+tourLease(), serverVariable+"="+url, roleVariable+"=",
		"GORACE=atexit_sleep_ms=0") // or each process takes a second to end under the race detector
	return command
}

// requireTour runs the program and checks what it says. It ends by itself after a minute at the latest.
func requireTour(t *testing.T, url string, lines ...string) {
	t.Helper()
	tour := program(t, url)
	var stderr bytes.Buffer
	tour.Stderr = &stderr
	output, err := tour.Output()
	require.NoError(t, err, stderr.String())
	require.Empty(t, stderr.String())

	lines = append(lines,
		`^1\. Workers take one lock in turn, and no update is lost$`,
		`^2\. Every lease has a token, and tokens rise$`,
		`^   Three leases, three tokens: \d{15,16} < \d{15,16} < \d{15,16}\.$`,
		`^3\. The holder can enter again; others cannot$`,
		`^   With the holder's context: entered again, same token \(true\), no round trip\.$`,
		`^   With any other context: the lock is held\.$`,
		`^4\. A lease is kept alive past its TTL while it is held$`,
		`^   A lease of `+tourLease()+`, held for \d+(\.\d+)?m?s: still good, until \d\d:\d\d:\d\d\.\d{3} at least\.$`,
		`^5\. A holder dies, and its lock passes on$`,
		`^   Its lease of `+tourLease()+` ended, and \d+\.\d s later the next has the lock, with a greater token \(true\)\.$`,
		`^That is all\. Read on in README\.md, or in the docs of package reentrant\.$`,
	)
	for _, line := range lines {
		require.Regexp(t, regexp.MustCompile(`(?m)`+line), string(output))
	}
	require.NotContains(t, string(output), "false")
}
