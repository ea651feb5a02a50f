// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-go/signalbox/internal/testing/redistest"
)

// runKeeper starts a server, says its process id and folder, and waits.
func runKeeper(stdin io.Reader, stdout io.Writer) {
	s, err := redistest.StartServer()
	if err != nil {
		fmt.Fprintln(stdout, err)
		return
	}
	if os.Getenv("KEEPER_FREEZES") != "" {
		fmt.Fprintln(stdout, s.PID(), folder(s))
		s.Freeze()
		fmt.Fprintln(stdout, "frozen")
	} else {
		fmt.Fprintln(stdout, s.PID(), folder(s))
	}
	_, _ = bufio.NewReader(stdin).ReadString('\n')
	// Ends without Close.
}

// runTopology starts the topology that its environment names, says the process id and the folder of
// each server, and waits.
func runTopology(stdin io.Reader, stdout io.Writer) {
	for _, s := range redistest.Topologies() {
		if s.Name != os.Getenv("TOPOLOGY") {
			continue
		}
		top, err := s.Start()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		for _, server := range top.Servers() {
			dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", server.PID()))
			fmt.Fprint(stdout, server.PID(), " ", dir, " ")
		}
		fmt.Fprintln(stdout)
	}
	_, _ = bufio.NewReader(stdin).ReadString('\n')
	// Ends without Close.
}

// workingFolder returns the folder of a process; a sentinel does not report it.
func workingFolder(t *testing.T, pid int) string {
	t.Helper()
	dir, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid))
	require.NoError(t, err)
	return dir
}

// folder returns the folder that a server runs in.
func folder(s *redistest.Server) string {
	reply, err := s.Do("CONFIG", "GET", "dir")
	if pair, ok := reply.([]any); err == nil && ok {
		return fmt.Sprint(pair[1])
	}
	return fmt.Sprint(err)
}

// keeper starts a child that keeps a server and returns the server's process id and folder.
func keeper(t *testing.T, env ...string) (child *redistest.Process, pid int, dir string) {
	t.Helper()
	child = redistest.Child(t, "keeper", env...)
	line, err := child.ReadLine(patience)
	require.NoError(t, err)
	text, dir, _ := strings.Cut(line, " ")
	pid, err = strconv.Atoi(text)
	require.NoError(t, err, line)
	require.DirExists(t, dir)
	require.True(t, alive(pid))
	return child, pid, dir
}

func alive(pid int) bool {
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func requireGone(t *testing.T, pid int, dir string) {
	t.Helper()
	eventually(t, func() bool { return !alive(pid) }, "process left")
	eventually(t, func() bool {
		_, err := os.Stat(dir)
		return errors.Is(err, os.ErrNotExist)
	}, "folder left")
}

func TestCloseDoesTheWorkOfAKilledSupervisor(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	pid, dir := s.PID(), folder(s)
	require.NoError(t, syscall.Kill(parent(t, pid), syscall.SIGKILL))
	require.Equal(t, "PONG", s.MustDo(t, "PING"))
	s.Close()
	_, err := s.Do("PING")
	require.Error(t, err)
	require.NoDirExists(t, dir)
}

// TestNothingIsLeftOfAParentKilledDuringItsStart kills a process that starts a
// server, at another moment each time. Its folder and the server's are all that it could
// leave, and the supervisors remove them last.
func TestNothingIsLeftOfAParentKilledDuringItsStart(t *testing.T) {
	t.Parallel()
	for i := range 10 {
		tmp := t.TempDir()
		child := redistest.Child(t, "keeper", "TMPDIR="+tmp)
		_, err := child.ReadLine(time.Duration(i) * 6 * time.Millisecond)
		t.Log(err) // first it has not started the server yet, later it has
		child.Kill()
		eventually(t, func() bool {
			left, err := os.ReadDir(tmp)
			return err == nil && len(left) == 0
		}, "folder left")
	}
}

// parent returns the process id of a process's parent.
func parent(t *testing.T, pid int) int {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(stat), ") ")
	ppid, err := strconv.Atoi(strings.Fields(rest)[1])
	require.NoError(t, err)
	return ppid
}

// A server dies with its parent, however that ends, and whether the server or the parent is stopped.
func TestServerDiesWithItsParent(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(child *redistest.Process){
		"Killed": (*redistest.Process).Kill,
		"Frozen": func(child *redistest.Process) {
			child.Freeze()
			child.Kill()
		},
		"Forgets it": func(child *redistest.Process) {
			child.Send("end")
			require.Zero(t, child.Wait(patience))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			child, pid, dir := keeper(t)
			end(child)
			requireGone(t, pid, dir)
		})
	}
	t.Run("Killed beside a frozen server", func(t *testing.T) {
		t.Parallel()
		child, pid, dir := keeper(t, "KEEPER_FREEZES=1")
		line, err := child.ReadLine(patience)
		require.NoError(t, err)
		require.Equal(t, "frozen", line)
		child.Kill()
		requireGone(t, pid, dir)
	})
}
