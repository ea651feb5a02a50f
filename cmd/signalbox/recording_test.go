// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/inspect"
	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// differs is what two recordings differ in: processes, times, tokens, and the blanks that align them.
var differs = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]+Z|[^\s"]+:\d+\b|token \d+| +`)

// The session in the README is what the command prints.
func TestTheRecordingOfTheREADMEIsTrue(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(readme), "```\n$ signalbox ")
	recording, _, _ := strings.Cut("$ signalbox "+rest, "```")

	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	using := func() (n int) {
		entries, err := inspect.Name(locktest.Context(t), s, "backup")
		require.NoError(t, err)
		for _, e := range entries {
			n += e.HolderCount + e.WaiterCount
		}
		return n
	}
	var recorded, printed strings.Builder
	var background []*process
	for line := range strings.Lines(recording) {
		command, is := strings.CutPrefix(line, "$ signalbox ")
		args := strings.Fields(command)
		switch {
		case !is:
			recorded.WriteString(line)
		case args[len(args)-1] == "&":
			background = append(background, start(t, server.URL(), args[:len(args)-1]...))
			redistest.Await(t, "a holder or waiter", func() bool { return using() == len(background) })
		default:
			cmd := exec.Command(binary, args...)
			cmd.Env = environment(server.URL())
			out, _ := cmd.CombinedOutput() // its exit code is not recorded
			printed.Write(out)
		}
	}
	for _, p := range background {
		p.code()
		printed.WriteString(p.output())
	}
	require.NotEmpty(t, recorded.String())
	require.Equal(t, differs.ReplaceAllString(recorded.String(), " "), differs.ReplaceAllString(printed.String(), " "))
}
