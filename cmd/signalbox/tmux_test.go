// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/locktest"
	"github.com/signalbox-go/signalbox/internal/testing/redistest"
	"github.com/signalbox-go/signalbox/reentrant"
)

// tmux is a terminal emulator with a server of its own: what it shows is what a user sees.
type tmux struct {
	*testing.T

	environment []string
}

// screen returns the path of a program that shows what a user sees, and skips the test if it is not installed.
func screen(t *testing.T, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil && os.Getenv("SIGNALBOX_SCREENS") != "required" {
		t.Skip(program + " is not installed; make screens installs it")
	}
	require.NoError(t, err)
	return path
}

// inTmux runs the command in a window of that size, and skips the test if there is no tmux.
func inTmux(t *testing.T, url, size string, args ...string) *tmux {
	t.Helper()
	screen(t, "tmux")
	tm := &tmux{t, environment(url, "TMUX_TMPDIR="+t.TempDir(), "TMUX=", "LC_ALL=C.UTF-8")}
	width, height, _ := strings.Cut(size, "x")
	tm.query(append([]string{"new-session", "-d", "-x", width, "-y", height, binary}, args...)...)
	t.Cleanup(func() { _, _ = tm.run("kill-server") }) // it has ended if the command has
	return tm
}

func (tm *tmux) run(args ...string) (string, error) {
	cmd := exec.Command("tmux", append([]string{"-f", "/dev/null"}, args...)...)
	cmd.Env = tm.environment
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (tm *tmux) query(args ...string) string {
	tm.Helper()
	out, err := tm.run(args...)
	require.NoError(tm, err, out)
	return out
}

// shows waits until the window has a line that begins with each of these, in this order.
func (tm *tmux) shows(begins ...string) {
	tm.Helper()
	redistest.Await(tm, strings.Join(begins, ", "), func() bool {
		at := 0
		for line := range strings.Lines(tm.query("capture-pane", "-p")) {
			if at < len(begins) && strings.HasPrefix(line, begins[at]) {
				at++
			}
		}
		return at == len(begins)
	})
}

// A user watches names come and go, in a window that changes its size, sorts them, and quits.
func TestWatchInTmux(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := locktest.SteadySession(t, server)
	held := locktest.Must(t, reentrant.New(s, "order/1\x1b[2J\x07").Lock)
	defer held.Unlock()
	crowded := locktest.Must(t, reentrant.New(s, "order/2").Lock)
	waiter := start(t, server.URL(), "run", "order/2", "--", "true")
	tm := inTmux(t, server.URL(), "100x12", "watch", "--every", "100ms", "order/")
	tm.shows("signalbox order/*", "NAME", "order/2 ", `"order/1\x1b[2J\a" `, "1 to 2 of 2, by waiters")
	tm.query("send-keys", "s")
	tm.shows("NAME", `"order/1\x1b[2J\a" `, "order/2 ", "1 to 2 of 2, by name")
	tm.query("resize-window", "-x", "50", "-y", "6")
	tm.shows("signalbox order/*", "NAME", `"order/1`, "order/2", "1 to 2 of 2")
	require.NoError(t, crowded.Unlock())
	waiter.ended(0)
	tm.shows("NAME", `"order/1`, "1 to 1 of 1")
	tm.query("send-keys", "q")
	redistest.Await(t, "the end of the window", func() bool {
		_, err := tm.run("has-session")
		return err != nil
	})
}
