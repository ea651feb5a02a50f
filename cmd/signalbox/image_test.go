// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// The command is enough for an image: it runs as process 1 of a root that has nothing else.
func TestTheCommandAloneIsProcessOne(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the command is built once more, without C")
	}
	if os.Getuid() != 0 {
		t.Skip("another root takes root")
	}
	root, server := t.TempDir(), redistest.Start(t)
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(root, "signalbox"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	// What each container has beside its image.
	require.NoError(t, os.Mkdir(filepath.Join(root, "dev"), 0o755))
	if err := syscall.Mknod(filepath.Join(root, "dev", "null"), syscall.S_IFCHR|0o666, 1<<8|3); err != nil {
		t.Skip("this host makes no device:", err)
	}
	command := func(args ...string) *exec.Cmd {
		c := exec.Command("/signalbox", args...) //nolint:noctx // it gets a signal
		c.Env, c.Dir = []string{"SIGNALBOX_REDIS=" + server.URL()}, "/"
		c.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Cloneflags: syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
		return c
	}
	if out, err := command("version").CombinedOutput(); err != nil {
		t.Skipf("this host makes no PID namespace: %v %s", err, out)
	}
	out, err = command("run", "backup", "--", "/signalbox", "version").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "go1.")

	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0"},
		{"shards", "serve", "--count", "1", "group", "--", "/signalbox", "run", "shard", "--", "/signalbox", "version"},
	} {
		c := command(args...)
		output, err := c.StdoutPipe()
		require.NoError(t, err)
		c.Stderr = c.Stdout
		require.NoError(t, c.Start())
		line, err := bufio.NewReader(output).ReadString('\n')
		require.NoError(t, err)
		require.Regexp(t, "serving http|go1", line)
		require.NoError(t, c.Process.Signal(syscall.SIGTERM))
		_ = c.Wait()
		require.Equal(t, 128+int(syscall.SIGTERM), c.ProcessState.ExitCode(), args)
	}
}
